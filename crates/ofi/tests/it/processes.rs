//! Processes that know each other: this program once more, in roles, within a node and on nodes of
//! an Ethernet segment. A role says lines that begin with `@` to the test, and is told lines.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use weft_tests::segment::{Segment, SegmentConfig};

use crate::library::library;
use crate::net::{Net, Wishes};

/// Says which role this process is to play: the role's number.
const ROLE: &str = "OFI_TEST_ROLE";

/// How long a role may be silent: only one that hangs is.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where the processes of a test are.
#[derive(Clone, Copy)]
pub enum Place {
    OneNode,
    /// Each on a node of its own.
    Ethernet,
    /// On so many nodes, in turn.
    Nodes(usize),
}

/// This process's role, if it plays one.
pub fn role() -> Option<usize> {
    std::env::var(ROLE).ok()?.parse().ok()
}

/// Says something to the test.
pub fn say(line: &str) {
    println!("@{line}");
    io::stdout().flush().expect("the test listens");
}

/// What the test says.
pub fn hear() -> String {
    let mut line = String::new();
    io::stdin().read_line(&mut line).expect("the test speaks");
    line.trim_end().to_string()
}

/// An endpoint that knows those of the other roles: its own number is 0, and theirs are 1 and up,
/// in the roles' order.
pub fn join(wishes: Wishes) -> Net {
    let net = Net::new(library().expect("the test has it"), 1, wishes);
    let name = net.nodes[0].name;
    say(&name.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    for (place, other) in hear().split(' ').enumerate() {
        let byte = |at| u8::from_str_radix(&other[at..at + 2], 16).expect("two digits");
        let name: Vec<u8> = (0..other.len()).step_by(2).map(byte).collect();
        net.insert(&name, place as u64 + 1);
    }
    net
}

/// A process in a role.
pub struct Player {
    child: Child,
    told: ChildStdin,
    said: Receiver<String>,
    /// All that it said, for a failure's sake.
    all: VecDeque<String>,
}

impl Player {
    fn start(test: &str, role: usize, variables: &[(&str, &str)]) -> io::Result<Player> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--exact", test, "--nocapture"]).env(ROLE, role.to_string());
        command.envs(variables.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let told = child.stdin.take().expect("its input");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let (sender, said) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Player { child, told, said, all: VecDeque::new() })
    }

    /// The next line for the test.
    pub fn says(&mut self) -> String {
        loop {
            let Ok(line) = self.said.recv_timeout(PATIENCE) else {
                panic!("a role says nothing more after {:?}", self.all);
            };
            // The first line comes behind what the test harness writes.
            if let Some((_, line)) = line.split_once('@') {
                return line.to_string();
            }
            self.all.push_back(line);
        }
    }

    pub fn tell(&mut self, line: &str) {
        writeln!(self.told, "{line}").expect("the role listens");
    }

    pub fn id(&self) -> libc::pid_t {
        self.child.id() as libc::pid_t
    }

    /// Stops it, with all its threads.
    pub fn stop(&self) {
        // SAFETY: a process that was started here, and has not been waited for.
        assert_eq!(unsafe { libc::kill(self.id(), libc::SIGSTOP) }, 0);
        let begun = Instant::now();
        while !self.is_stopped() {
            assert!(begun.elapsed() < PATIENCE, "it does not stop");
            thread::yield_now();
        }
    }

    fn is_stopped(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.id()));
        threads.expect("its threads").all(|thread| {
            let stat = std::fs::read_to_string(thread.expect("a thread").path().join("stat"));
            // The state comes behind the name, which may hold anything.
            stat.is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, s)| s.starts_with('T')))
        })
    }

    /// Waits until it has ended well.
    pub fn end(&mut self) {
        while let Ok(line) = self.said.recv_timeout(PATIENCE) {
            self.all.push_back(line);
        }
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "a role ends with {status}: {:#?}", self.all);
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.child.kill().expect("it is killed");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts so many roles of a test, which know each other then. `None`, said loudly, where that
/// cannot be.
pub fn play(test: &str, place: Place, roles: usize) -> Option<(Vec<Player>, Option<Segment>)> {
    play_with(test, place, roles, &[])
}

/// As [`play`], with variables in the roles' environment.
pub fn play_with(
    test: &str,
    place: Place,
    roles: usize,
    variables: &[(&str, &str)],
) -> Option<(Vec<Player>, Option<Segment>)> {
    library()?;
    let nodes = match place {
        Place::OneNode => 0,
        Place::Ethernet => roles,
        Place::Nodes(nodes) => nodes,
    };
    let segment = match nodes {
        0 => None,
        _ => match Segment::new(SegmentConfig { nodes, mtu: 1500, ipv4: true }) {
            Ok(segment) => Some(segment),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                println!("SKIPPED: no right to make network namespaces: {error}");
                return None;
            }
            Err(error) => panic!("cannot make a segment: {error}"),
        },
    };
    let start = |role| match &segment {
        None => Player::start(test, role, variables),
        Some(segment) => segment.run(role % nodes, || Player::start(test, role, variables)),
    };
    let mut players: Vec<Player> = (0..roles).map(|role| start(role).expect("a role")).collect();
    let names: Vec<String> = players.iter_mut().map(Player::says).collect();
    for (role, player) in players.iter_mut().enumerate() {
        let others = names.iter().enumerate().filter(|(other, _)| *other != role);
        let others: Vec<&str> = others.map(|(_, name)| name.as_str()).collect();
        player.tell(&others.join(" "));
    }
    Some((players, segment))
}
