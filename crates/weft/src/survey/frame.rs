//! What surveying processes say to each other: datagrams of job 0, which no job has, for port 0,
//! which stands for every process. Jobs that run on the same segment drop them unseen.
//!
//! | bytes after the header | field |
//! |---|---|
//! | 0 | [`LAYOUT`] |
//! | 1 | what it is |
//! | 2 | the sender's number of the link it left by |
//! | 3 | zero |
//! | 4..8 | id: which question, or which measurement |
//! | 8..16 | nonce of the sender |
//! | 16..24 | nonce of the receiver; 0: everyone |
//! | 24.. | by kind, see [`What`] |
//!
//! The key is public: the tag tells a survey's frame from an accident, not friend from foe. So all
//! that comes in is bounded, and nothing but this survey's figures depends on it.

use weft_wire::{FrameKind, HEADER_LEN, Header, INDEX_MAX, JobKey, Key, flags};

use super::report::{Row, Rtt, Stream, Who};

/// The key of all survey frames.
const KEY: JobKey = JobKey(*b"weft survey keys");
/// The job that survey frames belong to.
pub(super) const JOB: u32 = 0;
/// The version of the layout.
const LAYOUT: u8 = 1;
/// Bytes that all bodies begin with.
const PREFIX: usize = 24;
/// Most bytes of a name in a frame.
const NAME_MAX: usize = 63;
/// Most bytes of a frame of rows: it fits any link.
const ROWS_MAX: usize = 1200;
/// Room that every frame but those of a train fits into.
pub(super) const SMALL: usize = ROWS_MAX;

/// A link as its owner announces it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Announce {
    pub node: u64,
    pub mtu: u32,
    pub host: String,
    pub link: String,
}

/// Where a frame of a train belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wagon {
    /// Its burst, from 0.
    pub burst: u32,
    /// Whether it is the burst's last, after which a report is wanted.
    pub last: bool,
}

/// What has come of a train.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Arrived {
    /// The burst that the report answers.
    pub burst: u32,
    /// Frames of the train so far.
    pub frames: u32,
    /// Bytes after the first frame.
    pub bytes: u64,
    /// Time since the first frame, ns.
    pub elapsed_ns: u64,
}

/// What a frame says.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum What {
    /// I am here.
    Announce(Announce),
    /// Say this back.
    Echo,
    /// I say it back.
    Echoed,
    /// May I measure?
    Ask,
    /// You may.
    Grant,
    /// Not now.
    Busy,
    /// Part of a measured train.
    Train(Wagon),
    /// What has come of it.
    Report(Arrived),
    /// The measurement is over.
    Done,
    /// What the sender has measured.
    Rows(Vec<Row>),
}

/// A frame of a survey.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Frame {
    pub link: u8,
    pub id: u32,
    pub from: u64,
    pub to: u64,
    pub what: What,
}

fn key() -> Key {
    KEY.hello()
}

impl Frame {
    /// Writes the frame, padded to at least `len` bytes; gives its length, or `None` if it does not
    /// fit.
    pub fn encode(&self, len: usize, frame: &mut [u8]) -> Option<usize> {
        let mut put = Put { bytes: frame.get_mut(HEADER_LEN..)?, at: 0, fits: true };
        put.all(&[LAYOUT, self.code(), self.link, 0]);
        put.all(&self.id.to_le_bytes());
        put.all(&self.from.to_le_bytes());
        put.all(&self.to.to_le_bytes());
        match &self.what {
            What::Announce(a) => {
                put.all(&a.node.to_le_bytes());
                put.all(&a.mtu.to_le_bytes());
                put.name(&a.host);
                put.name(&a.link);
            }
            What::Train(wagon) => {
                put.all(&wagon.burst.to_le_bytes());
                put.all(&[u8::from(wagon.last)]);
            }
            What::Report(arrived) => {
                put.all(&arrived.burst.to_le_bytes());
                put.all(&arrived.frames.to_le_bytes());
                put.all(&arrived.bytes.to_le_bytes());
                put.all(&arrived.elapsed_ns.to_le_bytes());
            }
            What::Rows(rows) => {
                put.all(&[u8::try_from(rows.len()).ok()?]);
                rows.iter().for_each(|row| put_row(&mut put, row));
            }
            What::Echo | What::Echoed | What::Ask | What::Grant | What::Busy | What::Done => {}
        }
        let (fits, body) = (put.fits, put.at.max(len.saturating_sub(HEADER_LEN)));
        let body_len = u16::try_from(body).ok().filter(|_| fits)?;
        // What fills a train is not looked at: its checksum would only cost time.
        let train = matches!(self.what, What::Train(_));
        let header = Header {
            kind: FrameKind::Datagram,
            flags: if train { 0 } else { flags::CRC },
            port: 0,
            job: JOB,
            len: body_len,
            index: INDEX_MAX,
            path: self.link,
            number: self.id,
            crc: 0,
        };
        let whole = frame.get_mut(..HEADER_LEN + body)?;
        header.seal(&key(), whole);
        Some(HEADER_LEN + body)
    }

    /// Reads a frame; `None` if it is no survey's, is damaged, or makes no sense.
    pub fn decode(frame: &[u8]) -> Option<Frame> {
        let header = Header::decode(frame).ok()?;
        if header.kind != FrameKind::Datagram || header.job != JOB || header.port != 0 {
            return None;
        }
        header.verify(&key(), frame).ok()?;
        let mut take = Take { rest: header.body(frame) };
        let [layout, code, link, _] = take.some::<4>()?;
        let id = u32::from_le_bytes(take.some()?);
        let from = u64::from_le_bytes(take.some()?);
        let to = u64::from_le_bytes(take.some()?);
        let what = take_what(code, &mut take)?;
        let checked = header.flags & flags::CRC != 0 || matches!(what, What::Train(_));
        (layout == LAYOUT && from != 0 && checked).then_some(Frame { link, id, from, to, what })
    }

    fn code(&self) -> u8 {
        match self.what {
            What::Announce(_) => 1,
            What::Echo => 2,
            What::Echoed => 3,
            What::Ask => 4,
            What::Grant => 5,
            What::Busy => 6,
            What::Train(_) => 7,
            What::Report(_) => 8,
            What::Done => 9,
            What::Rows(_) => 10,
        }
    }
}

fn take_what(code: u8, take: &mut Take<'_>) -> Option<What> {
    Some(match code {
        1 => What::Announce(Announce {
            node: u64::from_le_bytes(take.some()?),
            mtu: u32::from_le_bytes(take.some()?),
            host: take.name()?,
            link: take.name()?,
        }),
        2 => What::Echo,
        3 => What::Echoed,
        4 => What::Ask,
        5 => What::Grant,
        6 => What::Busy,
        7 => {
            let burst = u32::from_le_bytes(take.some()?);
            What::Train(Wagon { burst, last: take.some::<1>()? == [1] })
        }
        8 => What::Report(Arrived {
            burst: u32::from_le_bytes(take.some()?),
            frames: u32::from_le_bytes(take.some()?),
            bytes: u64::from_le_bytes(take.some()?),
            elapsed_ns: u64::from_le_bytes(take.some()?),
        }),
        9 => What::Done,
        10 => {
            let [count] = take.some()?;
            What::Rows((0..count).map(|_| take_row(take)).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

/// How many of these rows one frame takes.
pub(super) fn rows_that_fit(rows: &[Row]) -> usize {
    let mut len = HEADER_LEN + PREFIX + 1;
    rows.iter()
        .take(usize::from(u8::MAX))
        .take_while(|row| {
            let names = [&row.link, &row.peer_link, &row.peer.host];
            len += ROW_FIXED + names.map(|n| 1 + n.len().min(NAME_MAX)).iter().sum::<usize>();
            len <= ROWS_MAX
        })
        .count()
}

/// Bytes of a row without its names.
const ROW_FIXED: usize = 8 + 8 + 4 + 4 + 1 + 16 + 20;

fn put_row(put: &mut Put<'_>, row: &Row) {
    put.all(&row.peer.node.to_le_bytes());
    put.all(&row.peer.nonce.to_le_bytes());
    put.all(&row.mtu.to_le_bytes());
    put.all(&row.peer_mtu.to_le_bytes());
    let has = [row.answers, row.rtt.is_some(), row.stream.is_some()];
    put.all(&[has.iter().enumerate().map(|(bit, has)| u8::from(*has) << bit).sum()]);
    let rtt = row.rtt.unwrap_or_default();
    for ns in [rtt.min_ns, rtt.p50_ns, rtt.p99_ns, rtt.mean_ns] {
        put.all(&ns.to_le_bytes());
    }
    let stream = row.stream.unwrap_or_default();
    let counts = [stream.frame_bytes, stream.sent, stream.received];
    for count in counts {
        put.all(&count.to_le_bytes());
    }
    put.all(&stream.bytes_per_s.to_le_bytes());
    put.name(&row.link);
    put.name(&row.peer_link);
    put.name(&row.peer.host);
}

fn take_row(take: &mut Take<'_>) -> Option<Row> {
    let node = u64::from_le_bytes(take.some()?);
    let nonce = u64::from_le_bytes(take.some()?);
    let mtu = u32::from_le_bytes(take.some()?);
    let peer_mtu = u32::from_le_bytes(take.some()?);
    let [has] = take.some()?;
    let rtt = Rtt {
        min_ns: u32::from_le_bytes(take.some()?),
        p50_ns: u32::from_le_bytes(take.some()?),
        p99_ns: u32::from_le_bytes(take.some()?),
        mean_ns: u32::from_le_bytes(take.some()?),
    };
    let stream = Stream {
        frame_bytes: u32::from_le_bytes(take.some()?),
        sent: u32::from_le_bytes(take.some()?),
        received: u32::from_le_bytes(take.some()?),
        bytes_per_s: u64::from_le_bytes(take.some()?),
    };
    let (link, peer_link, host) = (take.name()?, take.name()?, take.name()?);
    Some(Row {
        link,
        mtu,
        peer: Who { node, nonce, host },
        peer_link,
        peer_mtu,
        answers: has & 1 != 0,
        rtt: (has & 2 != 0).then_some(rtt),
        stream: (has & 4 != 0).then_some(stream),
    })
}

/// Writes one after the other, as long as there is room.
struct Put<'a> {
    bytes: &'a mut [u8],
    at: usize,
    fits: bool,
}

impl Put<'_> {
    fn all(&mut self, bytes: &[u8]) {
        match self.bytes.get_mut(self.at..self.at + bytes.len()) {
            Some(room) => room.copy_from_slice(bytes),
            None => self.fits = false,
        }
        self.at += bytes.len();
    }

    fn name(&mut self, name: &str) {
        let mut end = name.len().min(NAME_MAX);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        self.all(&[end as u8]);
        self.all(&name.as_bytes()[..end]);
    }
}

/// Reads one after the other, as long as there is something.
struct Take<'a> {
    rest: &'a [u8],
}

impl Take<'_> {
    fn some<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*first)
    }

    /// A name, fit to be shown on a terminal: what could steer one is replaced.
    fn name(&mut self) -> Option<String> {
        let [len] = self.some()?;
        let (name, rest) = self.rest.split_at_checked(usize::from(len))?;
        self.rest = rest;
        let shown = |c: char| if c.is_alphanumeric() || "-_.:@".contains(c) { c } else { '?' };
        (name.len() <= NAME_MAX).then(|| String::from_utf8_lossy(name).chars().map(shown).collect())
    }
}

/// Makes a frame genuine whose body was changed, or has become longer.
#[cfg(test)]
pub(super) fn seal_again(frame: &mut [u8]) {
    let header = Header::decode(frame).expect("it begins with a header");
    let len = (frame.len() - HEADER_LEN) as u16;
    Header { len, ..header }.seal(&key(), frame);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row {
            link: "packet:eth1".into(),
            mtu: 1500,
            peer: Who { node: 7, nonce: 8, host: "beta".into() },
            peer_link: "packet:eth0".into(),
            peer_mtu: 9000,
            answers: true,
            rtt: Some(Rtt { min_ns: 1, p50_ns: 2, p99_ns: 4, mean_ns: 3 }),
            stream: Some(Stream { frame_bytes: 1500, sent: 9, received: 8, bytes_per_s: 1 << 40 }),
        }
    }

    fn all() -> Vec<What> {
        let announce =
            Announce { node: 5, mtu: 1500, host: "alpha".into(), link: "udp:eth1".into() };
        let arrived = Arrived { burst: 1, frames: 2, bytes: 3, elapsed_ns: 4 };
        vec![
            What::Announce(announce),
            What::Echo,
            What::Echoed,
            What::Ask,
            What::Grant,
            What::Busy,
            What::Train(Wagon { burst: 3, last: true }),
            What::Report(arrived),
            What::Done,
            What::Rows(vec![row(), Row { rtt: None, stream: None, answers: false, ..row() }]),
        ]
    }

    fn encoded(what: What, len: usize) -> (Frame, Vec<u8>) {
        let frame = Frame { link: 3, id: 77, from: 11, to: 12, what };
        let mut bytes = [0xee; 2000];
        let len = frame.encode(len, &mut bytes).unwrap();
        (frame, bytes[..len].to_vec())
    }

    #[test]
    fn encoding_and_back_changes_nothing() {
        for what in all() {
            let (frame, bytes) = encoded(what.clone(), 0);
            assert_eq!(Frame::decode(&bytes), Some(frame.clone()));
            assert!(frame.encode(0, &mut vec![0; bytes.len() - 1]).is_none(), "{what:?}");
            let (_, padded) = encoded(what, 1400);
            assert_eq!((padded.len(), Frame::decode(&padded)), (1400, Some(frame)));
        }
    }

    #[test]
    fn damage_shortness_and_other_jobs_are_refused() {
        for what in all().into_iter().filter(|w| !matches!(w, What::Train(_))) {
            let (_, bytes) = encoded(what.clone(), 0);
            for bit in 0..bytes.len() * 8 {
                let mut bad = bytes.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Frame::decode(&bad), None, "{what:?}, bit {bit}");
            }
            for len in 0..bytes.len() {
                assert_eq!(Frame::decode(&bytes[..len]), None);
            }
        }
        // A body that lies about its lengths, rightly sealed.
        let (_, mut bytes) = encoded(What::Rows(vec![row()]), 0);
        bytes[HEADER_LEN + PREFIX] = 200;
        Header::decode(&bytes).unwrap().seal(&key(), &mut bytes);
        assert_eq!(Frame::decode(&bytes), None);
        let header = Header::decode(&bytes).unwrap();
        Header { job: 1, ..header }.seal(&key(), &mut bytes);
        assert_eq!(Frame::decode(&bytes), None);
    }

    #[test]
    fn names_cannot_steer_a_terminal() {
        let host = "a\x1b[2J\nb".to_string();
        let announce = Announce { node: 5, mtu: 1500, host, link: "x".repeat(300) };
        let (_, bytes) = encoded(What::Announce(announce), 0);
        let Some(Frame { what: What::Announce(read), .. }) = Frame::decode(&bytes) else {
            panic!("it is an announcement");
        };
        assert_eq!((read.host.as_str(), read.link.len()), ("a??2J?b", NAME_MAX));
    }

    #[test]
    fn as_many_rows_as_fit_fit() {
        let rows = vec![row(); 300];
        let count = rows_that_fit(&rows);
        assert!(count > 5 && count < 20, "{count}");
        let (_, bytes) = encoded(What::Rows(rows[..count].to_vec()), 0);
        assert!(bytes.len() <= ROWS_MAX);
        assert_eq!(rows_that_fit(&rows[..2]), 2);
    }
}
