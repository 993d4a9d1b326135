//! Puts settings of network cards back, however the process ends that has changed them.
//!
//! A process of its own, `weft tune-guard`, holds the other end of a pipe. It is told what a card
//! had set before anything is changed; when the pipe ends, because it was closed or because its
//! holder was killed, the guard puts everything back. In good times as in bad it is the guard that
//! does it. It also has the name that says that on this node somebody sets cards: whoever wants to
//! be the next finds them as they were.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::{env, ffi::OsStr};

use weft_sys::net::Coalescing;
use weft_sys::process::{self, Setup};
use weft_sys::unix::Listener;

use super::cards::Card;

/// In the network namespace, and gone with the guard.
const NAME: &[u8] = b"weft/tune";

/// The guarded end.
#[derive(Debug)]
pub struct Guard {
    child: Child,
}

impl Guard {
    /// Starts one. It is no part of the job or of the session of who starts it, so that what ends
    /// those leaves it alive.
    ///
    /// # Errors
    /// When there is no command `weft` to start, or it does not start; `AddrInUse` while another
    /// process of this node sets cards.
    pub fn start() -> io::Result<Guard> {
        let office = Listener::bind(NAME)?;
        let mut command = Command::new(command()?);
        command.arg("tune-guard").env_clear().current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let setup = Setup { own_session: true, inherit: vec![office.into()], ..Setup::default() };
        Ok(Guard { child: process::spawn(&mut command, setup)? })
    }

    /// This is what `card` gets back.
    ///
    /// # Errors
    /// When the guard is gone: then nothing must be changed.
    pub fn watch(&mut self, card: &str, before: &Coalescing) -> io::Result<()> {
        self.tell(&format!("{card} {}", words(before)))
    }

    /// `card` was not changed, and is not touched.
    ///
    /// # Errors
    /// When the guard is gone.
    pub fn forget(&mut self, card: &str) -> io::Result<()> {
        self.tell(card)
    }

    fn tell(&mut self, line: &str) -> io::Result<()> {
        let Some(to) = &mut self.child.stdin else { return Err(io::ErrorKind::BrokenPipe.into()) };
        writeln!(to, "{line}")
    }

    /// Has everything put back, and says whether that was done.
    pub fn end(mut self) -> bool {
        self.finish()
    }

    fn finish(&mut self) -> bool {
        drop(self.child.stdin.take());
        self.child.wait().is_ok_and(|status| status.success())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Guards until standard input ends, then puts everything back. What `weft tune-guard` does.
pub fn run() -> ExitCode {
    let mut all: BTreeMap<String, Coalescing> = BTreeMap::new();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let (card, words) = line.split_once(' ').unwrap_or((&line, ""));
        match parse(words) {
            Some(before) => all.insert(card.to_owned(), before),
            None => all.remove(card),
        };
    }
    let mut good = true;
    for (name, before) in all {
        if let Err(error) = Card::open(&name).and_then(|(card, _)| card.set(&before)) {
            good = false;
            // Whoever asked for it may be gone, and where this is written to as well.
            let _ = writeln!(io::stderr(), "weft: what was set is not put back: {error}");
        }
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn words(of: &Coalescing) -> String {
    let Coalescing { rx_us, rx_frames, tx_us, tx_frames, adaptive_rx, adaptive_tx } = *of;
    let (rx, tx) = (u32::from(adaptive_rx), u32::from(adaptive_tx));
    format!("{rx_us} {rx_frames} {tx_us} {tx_frames} {rx} {tx}")
}

fn parse(words: &str) -> Option<Coalescing> {
    let numbers: Vec<u32> = words.split(' ').map_while(|word| word.parse().ok()).collect();
    let [rx_us, rx_frames, tx_us, tx_frames, rx, tx] = numbers[..] else { return None };
    let (adaptive_rx, adaptive_tx) = (rx != 0, tx != 0);
    Some(Coalescing { rx_us, rx_frames, tx_us, tx_frames, adaptive_rx, adaptive_tx })
}

/// The file of the command `weft`: this program's own, or beside it, beside the provider, or in the
/// PATH.
fn command() -> io::Result<PathBuf> {
    let own = env::current_exe().unwrap_or_default();
    if own.file_name() == Some(OsStr::new("weft")) {
        return Ok(own);
    }
    let listed = |name: &str| {
        let paths = env::var_os(name).unwrap_or_default();
        env::split_paths(&paths).collect::<Vec<_>>()
    };
    let mut folders: Vec<PathBuf> = own.parent().map(PathBuf::from).into_iter().collect();
    for provider in listed("FI_PROVIDER_PATH") {
        folders.push(provider.join("../bin"));
        folders.push(provider);
    }
    folders.extend(listed("PATH"));
    let files = folders.into_iter().map(|folder| folder.join("weft"));
    files.into_iter().find(|file| file.is_file()).ok_or_else(|| {
        let why = "no command `weft` beside the program, beside the provider or in the PATH, which \
                   would put back what is set";
        io::Error::new(io::ErrorKind::NotFound, why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_card_had_comes_through_and_what_is_cut_off_does_not() {
        let before =
            Coalescing { rx_us: 3, tx_frames: 64, adaptive_rx: true, ..Default::default() };
        let line = words(&before);
        assert_eq!(parse(&line), Some(before));
        let fewer = line.rsplit_once(' ').unwrap().0;
        for bad in ["", "3", fewer, "3 0 0 64 x 0", &format!("{line} 1")] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
