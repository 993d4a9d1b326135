//! The processes of a floor measurement, seen from the one that gives the orders.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use weft_sys::floor::SharedWords;
use weft_sys::process::{self, Setup};

use super::agent::Order;
use super::figure::{Figure, Value};
use super::floor::{Answer, Op};
use super::place::Place;
use super::table::Table;
use crate::CliError;
use crate::interrupt::Interrupt;

/// How long an answer may take beyond the measurement itself.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked whether a signal has come.
const LOOK: Duration = Duration::from_millis(20);

/// Processes that wait for orders. They end on drop.
pub struct Crew<'a> {
    place: &'a Place,
    stop: &'a Interrupt,
    size: usize,
    pinned: bool,
    agents: Vec<Agent>,
    _table: SharedWords,
}

struct Agent {
    child: Child,
    orders: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl<'a> Crew<'a> {
    /// Starts `size` processes, spread over the nodes of `place` in turn; `pinned`: each on a
    /// processor of its own, as far as there are enough.
    ///
    /// # Errors
    /// When a process cannot be started.
    pub fn start(
        place: &'a Place,
        stop: &'a Interrupt,
        size: usize,
        pinned: bool,
    ) -> Result<Crew<'a>, CliError> {
        stop.check()?;
        let table = Table::memory().map_err(CliError::io("make shared memory"))?;
        let agents = (0..size)
            .map(|seat| Agent::start(place, &table, seat, size, pinned))
            .collect::<Result<_, _>>()?;
        Ok(Crew { place, stop, size, pinned, agents, _table: table })
    }

    /// Has them all measure `op` for `ms` milliseconds. After an error the processes are replaced
    /// by new ones, for they may no longer be in step.
    ///
    /// # Errors
    /// What the processes say, that they do not answer, or that a signal came.
    pub fn measure(&mut self, op: Op, ms: u64) -> Result<Figure, CliError> {
        let figure = self.ask(op, ms);
        self.stop.check()?;
        if figure.is_err() {
            *self = Crew::start(self.place, self.stop, self.size, self.pinned)?;
        }
        figure.map_err(|why| CliError::Bench(format!("{}: {why}", op.title())))
    }

    fn ask(&mut self, op: Op, ms: u64) -> Result<Figure, String> {
        let order = serde_json::to_string(&Order { op, ms }).map_err(|e| e.to_string())?;
        for agent in &mut self.agents {
            agent.order(&order)?;
        }
        let limit = Duration::from_millis(ms) + PATIENCE;
        let mut all = Vec::new();
        let mut wrong = None;
        for agent in &mut self.agents {
            let answer = agent.answer(limit, self.stop)?;
            wrong = wrong.or(answer.error.clone());
            all.push(answer);
        }
        let value = all.iter().find_map(|a| a.value);
        match (wrong, value) {
            (Some(why), _) => Err(why),
            (None, None) => Err("no process has a figure".into()),
            (None, Some(value)) => Ok(figure(op, self.size, value, &all)),
        }
    }
}

fn figure(op: Op, ranks: usize, value: Value, all: &[Answer]) -> Figure {
    let cpu_ns: u64 = all.iter().map(|a| a.cpu_ns).sum();
    let bytes = all.iter().map(|a| a.bytes).max().unwrap_or(0);
    // Nanoseconds a byte are seconds a thousand million bytes.
    let cpu_s_per_gb = (cpu_ns > 0 && bytes > 0).then(|| cpu_ns as f64 / bytes as f64);
    Figure {
        bench: "floor".into(),
        device: op.name().into(),
        ranks: ranks as u32,
        bytes: op.bytes(),
        mode: None,
        value,
        cpu_s_per_gb,
        mpi_us: None,
        share: None,
    }
}

impl Agent {
    fn start(
        place: &Place,
        table: &SharedWords,
        seat: usize,
        seats: usize,
        pinned: bool,
    ) -> Result<Agent, CliError> {
        let node = seat % 2;
        let site = place.site(node);
        let me = std::env::current_exe().map_err(CliError::io("find this program's file"))?;
        let mut command = place.command(node, &me);
        command.args(["bench", "agent"]);
        command.args(["--table", &table.number().to_string(), "--interface", &site.interface]);
        command.args(["--seat", &seat.to_string(), "--seats", &seats.to_string()]);
        command.args(["--ip", &site.ip.to_string(), "--peer-ip", &site.peer_ip.to_string()]);
        if pinned {
            command.arg("--pinned");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // Signals of the terminal are for us, who end it.
        let setup = Setup { own_group: true, ..Setup::default() };
        let mut child = process::spawn(&mut command, setup)
            .map_err(CliError::io("start a measuring process"))?;
        let (orders, answers) = (child.stdin.take(), child.stdout.take());
        let (tell, answer) = channel();
        std::thread::spawn(move || {
            for line in answers.into_iter().flat_map(|a| BufReader::new(a).lines()) {
                if line.is_ok_and(|line| tell.send(line).is_err()) {
                    break;
                }
            }
        });
        Ok(Agent { child, orders, answers: answer })
    }

    fn order(&mut self, order: &str) -> Result<(), String> {
        let orders = self.orders.as_mut().ok_or("the process takes no orders")?;
        writeln!(orders, "{order}").map_err(|e| format!("a measuring process has ended: {e}"))
    }

    fn answer(&mut self, limit: Duration, stop: &Interrupt) -> Result<Answer, String> {
        let limit = Instant::now() + limit;
        loop {
            match self.answers.recv_timeout(LOOK) {
                Ok(line) => {
                    return serde_json::from_str(&line).map_err(|e| format!("bad answer: {e}"));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("a measuring process has ended".into());
                }
                Err(RecvTimeoutError::Timeout) => stop.check().map_err(|e| e.to_string())?,
            }
            if Instant::now() > limit {
                return Err("a measuring process does not answer".into());
            }
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
