//! Harnesses: launchers that answer whatever they like. Whatever it is, a rank joins or says why
//! not, and does not wait for ever.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bolero::{TypeGenerator, check};

use super::*;

/// One answer.
#[derive(Clone, Debug, TypeGenerator)]
enum Answer {
    /// As it should be, with this value.
    Good(Value),
    /// Another command, or a result that is none, with these words.
    Other(u8, Vec<u8>),
    /// No pairs at all.
    Bytes(Vec<u8>),
}

/// The value of a key, or a number of a limit.
#[derive(Clone, Debug, TypeGenerator)]
enum Value {
    Number(u8),
    Great(u64),
    /// A blob of so many bytes that says it has so many, of hexadecimal digits or nearly so.
    Blob(u64, u8, bool),
    Key,
    Text(String),
}

impl Value {
    fn text(&self) -> String {
        match self {
            Value::Number(number) => number.to_string(),
            Value::Great(number) => number.to_string(),
            Value::Blob(len, digits, good) => {
                let digit = if *good { "a" } else { "g" };
                let len = if len % 4 == 0 { u64::from(*digits) } else { *len };
                format!("{len}x{}", digit.repeat(2 * usize::from(*digits)))
            }
            Value::Key => format!("16x{}", "5".repeat(32)),
            Value::Text(text) => text.replace(['\n', '\0'], ";"),
        }
    }
}

const WORDS: &[&str] = &[
    "cmd=set",
    "cmd=initack",
    "cmd=response_to_init",
    "cmd=maxes",
    "cmd=get_result",
    "cmd=barrier_out",
    "cmd=put_result",
    "cmd=my_kvsname",
    "rc=0",
    "rc=-1",
    "rank=1",
    "size=4294967295",
    "size=0",
    "value=",
    "vallen_max=0",
    "vallen_max=18446744073709551615",
    "keylen_max=1",
    "msg=no",
    "=",
    "kvsname=a",
    "",
];

fn words(picks: &[u8], end: &str) -> String {
    let words = picks.iter().map(|&pick| WORDS[usize::from(pick) % WORDS.len()]);
    words.collect::<Vec<_>>().join(end)
}

fn asker(service: &'static str) -> Asker {
    Asker { service, rank: 1, size: 3, limit: Duration::from_secs(20) }
}

/// A connection on which all answers are there already, and after them the end.
fn launcher(script: &[u8]) -> (UnixStream, UnixStream) {
    let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
    theirs.set_nonblocking(true).expect("a flag");
    // What does not fit is not answered.
    let _ = theirs.write_all(script);
    theirs.shutdown(std::net::Shutdown::Write).expect("it is open");
    (ours, theirs)
}

/// A rank's whole life, as far as it comes.
fn join(board: Result<(Asker, Box<dyn Board>), WireupError>) {
    let job = board.and_then(|(asker, board)| Job::on(board, asker.rank, asker.size));
    match job {
        Ok(mut job) => {
            assert!(job.rank() < job.size(), "rank {} of {}", job.rank(), job.size());
            if let Ok(blobs) = job.exchange(&[7; 300]) {
                assert_eq!(blobs.len(), job.size() as usize);
                assert_eq!(blobs[job.rank() as usize], [7; 300]);
            }
            let _ = job.fence();
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The commands of PMI-1 in the order in which they are asked for.
const ORDER: [&str; 6] =
    ["response_to_init", "maxes", "my_kvsname", "barrier_out", "get_result", "put_result"];

fn pmi1(answers: &[Answer]) {
    let mut script = Vec::new();
    for (at, answer) in answers.iter().enumerate() {
        match answer {
            Answer::Good(value) => {
                let command = ORDER[at.min(3) + at.saturating_sub(3) % 3];
                let value = value.text();
                let more = match command {
                    "maxes" => format!("keylen_max={value} vallen_max={value}"),
                    "my_kvsname" => format!("kvsname={value}"),
                    _ => format!("value={value}"),
                };
                script.extend_from_slice(format!("cmd={command} rc=0 {more}\n").as_bytes());
            }
            Answer::Other(_, picks) => {
                script.extend_from_slice(format!("{}\n", words(picks, " ")).as_bytes());
            }
            Answer::Bytes(bytes) => script.extend_from_slice(bytes),
        }
    }
    let (ours, _theirs) = launcher(&script);
    let opened = Pmi1::open(ours.into(), asker("PMI-1"));
    join(opened.map(|pmi| (pmi.asker(), Box::new(pmi) as Box<dyn Board>)));
}

fn pmi2(greets: bool, answers: &[Answer]) {
    let mut script = Vec::new();
    if greets {
        script.extend_from_slice(b"cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n");
    }
    const ORDER: [&str; 4] = ["fullinit", "kvs-fence", "kvs-get", "kvs-put"];
    for (at, answer) in answers.iter().enumerate() {
        let body = match answer {
            Answer::Good(value) => {
                let command = ORDER[if at == 0 { 0 } else { 1 + (at - 1) % 3 }];
                let value = value.text();
                let more = if at == 0 {
                    format!("rank=1;size={value};")
                } else {
                    format!("found=TRUE;value={};", value.replace(';', ";;"))
                };
                format!("cmd={command}-response;rc=0;{more}").into_bytes()
            }
            Answer::Other(_, picks) => words(picks, ";").into_bytes(),
            Answer::Bytes(bytes) => bytes.clone(),
        };
        let len = match answer {
            Answer::Other(len, _) if *len < 64 => usize::from(*len),
            _ => body.len(),
        };
        script.extend_from_slice(format!("{len:<6}").as_bytes());
        script.extend_from_slice(&body);
    }
    let (ours, _theirs) = launcher(&script);
    let opened = Pmi2::open(ours.into(), "1", asker("PMI-2"));
    join(opened.map(|pmi| (pmi.asker(), Box::new(pmi) as Box<dyn Board>)));
}

#[test]
fn fuzzed_pmi1_answers() {
    let check = check!().with_iterations(5_000).with_max_len(2048);
    check.with_type::<Vec<Answer>>().for_each(|answers| pmi1(answers));
}

#[test]
fn fuzzed_pmi2_answers() {
    let check = check!().with_iterations(5_000).with_max_len(2048);
    check.with_type::<(u8, Vec<Answer>)>().for_each(|(g, answers)| pmi2(*g >= 16, answers));
}

/// A launcher that never comes to its answer is not listened to for ever.
#[test]
fn a_launcher_that_talks_without_an_end_is_told_from_one_that_answers() {
    let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
    let chatter = std::thread::spawn(move || while theirs.write_all(b"cmd=set x=y\n").is_ok() {});
    let error = Pmi1::open(ours.into(), asker("PMI-1")).expect_err("it never greets");
    assert!(matches!(error, WireupError::Nonsense { .. }), "{error}");
    chatter.join().expect("it ends with the connection");

    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let at = listener.local_addr().expect("it has one").to_string();
    let chatter = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody calls");
        while stream.write_all(b"cmd=set x=y\n").is_ok() {}
    });
    let error = Pmi1::connect(&at, "7", asker("PMI-1")).expect_err("it never tells the rank");
    assert!(matches!(error, WireupError::Nonsense { .. }), "{error}");
    chatter.join().expect("it ends with the connection");
}

/// A board on which one rank has something to say that would take all memory.
struct Boaster;

impl Board for Boaster {
    fn service(&self) -> &'static str {
        "test"
    }

    fn value_max(&self) -> usize {
        1024
    }

    fn put(&mut self, _key: &str, _value: &str) -> Result<(), WireupError> {
        Ok(())
    }

    fn fence(&mut self) -> Result<(), WireupError> {
        Ok(())
    }

    fn get(&mut self, owner: u32, key: &str) -> Result<String, WireupError> {
        assert_eq!((owner, key), (1, "weft-0-1-0"), "no further part is asked for");
        Ok(format!("{}xaaaa", u64::MAX))
    }

    fn leave(&mut self) {}
}

#[test]
fn a_blob_without_measure_is_neither_taken_nor_given() {
    let mut job = Job::on(Box::new(Boaster), 0, 2).expect("rank 0 makes the key");
    let error = job.exchange(b"small").expect_err("rank 1 boasts");
    assert!(matches!(error, WireupError::BadBlob { rank: 1, .. }), "{error}");
    let error = job.exchange(&vec![0; BLOB_MAX + 1]).expect_err("too long");
    assert!(error.to_string().contains("16777216"), "{error}");
    let place = Job::on(Box::new(Boaster), 2, 2).expect_err("there is no such rank");
    assert!(place.to_string().contains("rank 2 of 2"), "{place}");
}
