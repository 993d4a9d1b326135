//! Examples of each subcommand, for its help and for its manual page. A test reads all of them as
//! the command line is read.

use clap::Command;

/// A command line, and what it does.
type Example = (&'static str, &'static str);

/// By the words after `weft` that lead to the subcommand.
const EXAMPLES: &[(&[&str], &[Example])] = &[
    (
        &[],
        &[
            ("weft info", "What can be used on this machine, and what mends the rest"),
            ("weft mpirun -n 4 -- ./program", "An MPI program of four ranks, on this machine"),
            ("weft run -n 2 --lab nodes=2 -- weft bench lat", "Round trips of two virtual nodes"),
        ],
    ),
    (
        &["info"],
        &[
            ("weft info", "Devices, links and rights of this node"),
            ("weft info --json", "The same for scripts, a line for each"),
        ],
    ),
    (
        &["doctor"],
        &[
            ("weft doctor", "What costs speed here; exit status 1 if there is something"),
            ("weft doctor --ranks 32", "Also whether 32 ranks would get in each other's way"),
        ],
    ),
    (
        &["links"],
        &[
            ("weft links", "Who answers on the cables; the same command must run on the others"),
            ("weft links --hosts alpha,beta", "Starts it on these hosts by itself"),
            (
                "weft links --lab nodes=4,topology=ring --svg cables.svg",
                "Four virtual nodes in a ring, and a picture of them",
            ),
        ],
    ),
    (
        &["lab", "up"],
        &[
            ("weft lab up", "Two virtual nodes at a switch"),
            (
                "weft lab up --name ring --topology ring --nodes 4 --rate 1gbit --delay 20us",
                "Four in a ring, with cables as fast and as far as real ones",
            ),
        ],
    ),
    (&["lab", "down"], &[("weft lab down --name ring", "That lab, and what runs in it")]),
    (&["lab", "list"], &[("weft lab list", "Which labs there are, and whose they are")]),
    (
        &["lab", "exec"],
        &[("weft lab exec node1 -- ip addr", "The interfaces of a node of the lab `lab`")],
    ),
    (
        &["run"],
        &[
            ("weft run -n 4 -- ./program", "Four ranks on this machine"),
            ("weft run -n 4 --hosts alpha,beta:3 -- ./program", "One on alpha, three on beta"),
            (
                "weft run -n 4 --lab nodes=4,topology=ring --label -- ./program",
                "On virtual nodes in a ring; each line of output says whose it is",
            ),
        ],
    ),
    (
        &["top"],
        &[
            ("weft top", "The jobs of this machine"),
            ("weft top --hosts alpha,beta", "Those of other machines as well"),
            ("weft top --once --json", "One look, for programs"),
        ],
    ),
    (
        &["mpirun"],
        &[
            ("weft mpirun -n 4 -- ./program", "Whatever MPI the program is linked to"),
            (
                "weft mpirun -n 8 --hosts alpha,beta -- ./program",
                "Four ranks on each; Weft, MPI and program lie at the same paths there",
            ),
            (
                "weft mpirun -n 4 --lab nodes=2 --mpi openmpi -- python program.py",
                "mpi4py with Open MPI on two virtual nodes",
            ),
            (
                "weft mpirun -n 4 --transport own -- ./program",
                "The same without Weft, for comparison",
            ),
        ],
    ),
    (
        &["env"],
        &[
            ("weft env --mpi mpich", "For MPICH's own mpiexec: eval \"$(weft env --mpi mpich)\""),
            ("weft env --json", "For all MPIs that are installed, as one JSON object"),
        ],
    ),
    (
        &["bench", "floor"],
        &[("weft bench floor", "What this machine can do at best, some two minutes")],
    ),
    (
        &["bench", "lat"],
        &[
            ("weft run -n 2 -- weft bench lat", "Within this machine"),
            ("weft run -n 2 --hosts alpha,beta -- weft bench lat --bytes 8,1K", "Between two"),
        ],
    ),
    (
        &["bench", "bw"],
        &[(
            "weft run -n 2 --lab nodes=2 -- weft bench bw --bytes 1M --bidirectional",
            "Both ways at once, over a virtual cable",
        )],
    ),
    (&["bench", "put"], &[("weft run -n 2 -- weft bench put", "All sizes")]),
    (&["bench", "get"], &[("weft run -n 2 -- weft bench get", "All sizes")]),
    (&["bench", "register"], &[("weft run -n 2 -- weft bench register", "All sizes")]),
    (&["bench", "rate"], &[("weft run -n 2 -- weft bench rate --bytes 8", "Of 8 bytes")]),
    (&["bench", "ring"], &[("weft run -n 8 -- weft bench ring", "Round eight ranks")]),
    (
        &["bench", "barrier"],
        &[(
            "weft run -n 8 --lab nodes=8 -- weft bench barrier --algorithm all --svg barrier.svg",
            "Each algorithm on eight virtual nodes, and a picture",
        )],
    ),
    (
        &["bench", "bcast"],
        &[("weft run -n 4 --lab nodes=4 -- weft bench bcast", "To three other nodes")],
    ),
    (
        &["bench", "group"],
        &[("weft run -n 4 --lab nodes=4 -- weft bench group --senders 2", "Two members send")],
    ),
    (
        &["bench", "halo"],
        &[("weft run -n 2 --lab nodes=2 -- weft bench halo --cells 64", "A cube of 64^3 cells")],
    ),
    (
        &["bench", "logp"],
        &[("weft run -n 4 --lab nodes=4 -- weft bench logp", "Ends in a value of WEFT_LOGP")],
    ),
    (&["bench", "idle"], &[("weft run -n 2 -- weft bench idle", "What waiting costs")]),
    (
        &["compare"],
        &[
            ("weft compare --quick", "Weft beside TCP over a virtual cable, under a minute"),
            ("weft compare --mpi --only mpich,2x2,patterns --json", "Part of the MPI programs"),
        ],
    ),
    (
        &["tune"],
        &[
            ("weft tune", "How long each card waits"),
            ("weft tune --interface eth1 --rx-usecs 0 -- ./program", "No wait while it runs"),
            ("weft tune --adaptive", "Following the load, until Ctrl-C"),
        ],
    ),
    (
        &["sim", "proto"],
        &[
            ("weft sim proto --seeds 1000", "A thousand networks with faults"),
            ("weft sim proto --seed 7 --trace", "One of them, with all that happens"),
        ],
    ),
    (
        &["sim", "barrier"],
        &[(
            "weft sim barrier --nodes 1000000 --algorithm dissemination",
            "A million ranks, under a minute",
        )],
    ),
    (
        &["sim", "collective"],
        &[("weft sim collective --nodes 64 --what allreduce --way all", "Each way to do it")],
    ),
    (&["sim", "goodput"], &[("weft sim goodput", "The whole table")]),
    (&["sim", "tune"], &[("weft sim tune --mbit 2500", "With cards of 2.5 Gbit/s")]),
    (
        &["manual"],
        &[("weft manual ~/.local/share", "Where man, bash and fish look for a user's own")],
    ),
];

/// Those of the subcommand that these words lead to.
pub fn of(path: &[String]) -> &'static [Example] {
    EXAMPLES.iter().find(|(words, _)| *words == path).map_or(&[], |(_, examples)| examples)
}

/// The command with examples in its help and that of its subcommands.
pub fn added(command: Command) -> Command {
    add(command, &[])
}

fn add(command: Command, path: &[String]) -> Command {
    let examples = of(path);
    let lines = examples.iter().map(|(line, does)| format!("\n  {line}\n      {does}"));
    let text = format!("Examples:{}", lines.collect::<String>());
    let command = if examples.is_empty() { command } else { command.after_help(text) };
    command.mut_subcommands(|sub| {
        let mut path = path.to_vec();
        path.push(sub.get_name().to_string());
        add(sub, &path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The subcommands that a user sees and that do something themselves.
    fn leaves(command: &Command, path: &[String], found: &mut Vec<Vec<String>>) {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let mut path = path.to_vec();
            path.push(sub.get_name().to_string());
            if sub.has_subcommands() {
                leaves(sub, &path, found);
            } else {
                found.push(path);
            }
        }
    }

    #[test]
    fn each_subcommand_has_examples_and_each_example_a_subcommand() {
        let mut all = vec![Vec::new()];
        leaves(&crate::command(), &[], &mut all);
        let without: Vec<_> = all.iter().filter(|path| of(path).is_empty()).collect();
        assert!(without.is_empty(), "without an example: {without:?}");
        for (path, _) in EXAMPLES {
            assert!(all.iter().any(|known| known == path), "there is no weft {path:?}");
        }
    }

    #[test]
    fn each_example_can_be_typed() {
        for (path, examples) in EXAMPLES {
            for (line, does) in *examples {
                // None has a word with a blank in it. What is run may be `weft` as well.
                let words: Vec<&str> = line.split(' ').collect();
                for n in (0..words.len()).filter(|&n| words[n] == "weft") {
                    let matches = crate::command().try_get_matches_from(&words[n..]);
                    assert!(matches.is_ok(), "{line}: {}", matches.unwrap_err());
                }
                let mut parts = line.split(" -- ");
                let is_its = |part: &str| part.starts_with(&format!("weft {}", path.join(" ")));
                assert!(parts.any(is_its), "{line} is no example of weft {path:?}");
                assert!(line.len() <= 90 && does.len() <= 90, "too wide for a terminal: {line}");
            }
        }
    }
}
