//! Labs of any shape, and cables that do something to frames.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;

use weft_cli::lab::Lab;
use weft_sys::ns::NetNs;
use weft_sys::packet::{PacketConfig, PacketSocket};

use super::lab::{Up, interfaces, shape_has};
use super::*;

#[test]
fn a_star_has_a_middle() {
    let shape = ["--nodes", "4", "--topology", "star", "--links", "2"];
    shape_has("star", &shape, &[6, 2, 2, 2], 1500);
}

#[test]
fn a_grid_has_as_many_nodes_as_it_says() {
    shape_has("grid", &["--topology", "grid=2x3"], &[2, 3, 2, 2, 3, 2], 1500);
}

#[test]
fn groups_are_meshes_on_one_switch() {
    let shape = ["--topology", "groups=2,3", "--mtu", "9000"];
    shape_has("groups", &shape, &[3; 6], 9000);
    let Some(lab) = Up::new("groups-names", &["--topology", "groups=2x2"]) else { return };
    let names: Vec<_> = interfaces(&lab, "node3").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["lan0", "to2a"]);
}

/// A file that goes with the value.
struct Drawn(PathBuf);

impl Drawn {
    fn new(name: &str, text: &str) -> Drawn {
        let file = format!("weft-{}-{name}.lab", std::process::id());
        let path = std::env::temp_dir().join(file);
        std::fs::write(&path, text).expect("a file");
        Drawn(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path")
    }
}

impl Drop for Drawn {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn cables_come_from_a_file() {
    let text = "node0 node1 rate=1gbit mtu=9000 # fast\n\
                node0 node1 delay=20us loss=0.1%\n\
                node2 switch0\nswitch0 node1 mtu=4000\n";
    let file = Drawn::new("cables", text);
    let told = format!("file={}", file.path());
    let Some(lab) = Up::new("file", &["--topology", &told, "--rate", "10gbit"]) else { return };
    let of = |name: &str, mtu| (name.to_string(), mtu);
    assert_eq!(interfaces(&lab, "0"), [of("to1a", 9000), of("to1b", 1500)]);
    assert_eq!(interfaces(&lab, "1"), [of("lan0", 4000), of("to0a", 9000), of("to0b", 1500)]);
    assert_eq!(interfaces(&lab, "2"), [of("lan0", 1500)]);
    let topology = lab.record()["topology"].as_str().expect("a topology").to_string();
    assert!(topology.contains("node0+node1+delay=20us+loss=0.1%"), "{topology}");
    // The lab does not depend on its file.
    drop(file);
    assert!(lab.exec("2", &["true"]).status.success());
}

#[test]
fn what_is_wrong_in_a_file_is_named() {
    let file = Drawn::new("bad", "node0 node1\nnode1 node2 rate=fast\n");
    // A path alone will do.
    let output = weft(&["lab", "up", "--name", "never-made", "--topology", file.path()]);
    assert_eq!(output.status.code(), Some(2));
    let told = format!("{}:2: `rate=fast`", file.path());
    assert!(err(&output).contains(&told), "{}", err(&output));
    for (arguments, word) in [
        (&["--topology", "grid=2x3", "--nodes", "5"][..], "has 6 nodes"),
        (&["--topology", "file=/no/such/file"], "/no/such/file"),
        (&["--rate", "fast"], "1gbit"),
        (&["--delay", "20"], "20us"),
        (&["--loss", "0.1"], "0.1%"),
        (&["--addresses", "many"], "same"),
    ] {
        let output = weft(&[&["lab", "up", "--name", "never-made"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(err(&output).contains(word), "{}", err(&output));
    }
}

#[test]
fn what_cables_do_is_listed() {
    let shape = ["--rate", "1gbit", "--delay", "20us", "--loss", "0.1%", "--addresses", "same"];
    let Some(lab) = Up::new("listed", &shape) else { return };
    let record = lab.record();
    for (key, value) in
        [("rate_bit_s", "1000000000"), ("delay_ns", "20000"), ("loss", "0.001"), ("nodes", "2")]
    {
        assert_eq!(record[key].to_string(), value, "{record}");
    }
    assert_eq!((&record["topology"], &record["addresses"]), (&"switch".into(), &"same".into()));
    let text = out(&weft(&["lab", "list"]));
    let line = text.lines().find(|line| line.contains(&lab.0)).expect("the lab is listed");
    assert!(line.contains("rate=1gbit,delay=20us,loss=0.1%,addresses=same"), "{line}");
}

#[test]
fn cables_may_share_a_subnet_or_have_no_address() {
    let addresses = |lab: &Up| {
        let text = out(&lab.exec("node1", &["cat", "/proc/net/fib_trie"]));
        let words: Vec<&str> = text.split_whitespace().collect();
        let host = |w: &[&str]| w[0].starts_with("10.") && w[1..3] == ["/32", "host"];
        let mut found: Vec<_> = words.windows(3).filter(|w| host(w)).map(|w| w[0]).collect();
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(str::to_string).collect::<Vec<_>>()
    };
    let ring = ["--nodes", "3", "--topology", "ring", "--addresses"];
    let Some(lab) = Up::new("same", &[&ring[..], &["same"]].concat()) else { return };
    assert_eq!(addresses(&lab), ["10.64.0.2", "10.64.0.3"]);
    let Some(lab) = Up::new("bare", &[&ring[..], &["none"]].concat()) else { return };
    assert_eq!(addresses(&lab), Vec::<String>::new());
    assert_eq!(interfaces(&lab, "1").len(), 2);
    drop(lab);
    for links in ["packet", "tso"] {
        let mut command = Command::new(WEFT);
        command.args(["run", "-n", "2", "--lab", "nodes=2,topology=mesh,addresses=none"]);
        command.args(["--", WEFT, "run-probe", "--bytes", "200000"]).env("WEFT_LINKS", links);
        let output = command.output().expect("weft");
        assert!(output.status.success(), "{links}: {}", err(&output));
        assert!(out(&output).contains("rank 1 of 2 on node1"), "{}", out(&output));
    }
}

/// The nodes of a lab, and their addresses towards each other; none if a thread of this process
/// may not go there.
fn two_nodes(lab: &Up) -> Option<[(NetNs, IpAddr); 2]> {
    let lab = Lab::find(&lab.0).expect("the lab");
    if lab.record().rootless {
        println!("SKIPPED: a lab of a user namespace cannot be entered");
        return None;
    }
    let ip = |from, to| lab.towards(from, to).map_or(Ipv4Addr::LOCALHOST, |(_, ip)| ip);
    let node = |node| lab.net(node).expect("a namespace");
    Some([(node(0), ip(0, 1).into()), (node(1), ip(1, 0).into())])
}

/// A socket on each of two nodes, each connected to the other.
fn sockets(nodes: &[(NetNs, IpAddr); 2]) -> [UdpSocket; 2] {
    let sockets = nodes.each_ref().map(|(ns, ip)| {
        let socket = ns.run(|| UdpSocket::bind(SocketAddr::new(*ip, 0))).expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a limit");
        socket
    });
    let [a, b] = sockets.each_ref().map(|s| s.local_addr().expect("an address"));
    sockets[0].connect(b).and_then(|()| sockets[1].connect(a)).expect("connected");
    sockets
}

#[test]
fn frames_take_their_time() {
    for (delay, us) in [("2ms", 2000), ("100us", 100)] {
        for topology in ["mesh", "switch"] {
            let shape = ["--topology", topology, "--delay", delay, "--rate", "1gbit"];
            let Some(lab) = Up::new(&format!("delay{us}-{topology}"), &shape) else { return };
            let Some(nodes) = two_nodes(&lab) else { return };
            let [here, there] = sockets(&nodes);
            let cables = if topology == "mesh" { 1 } else { 2 };
            let mut buffer = [0; 64];
            let mut answered = 0;
            for _ in 0..20 {
                let asked = Instant::now();
                here.send(b"there").expect("sent");
                if there.recv(&mut buffer).is_err() {
                    continue;
                }
                there.send(b"back").expect("sent");
                if here.recv(&mut buffer).is_ok() {
                    let least = Duration::from_micros(2 * us * cables);
                    assert!(asked.elapsed() >= least, "{:?} of {least:?}", asked.elapsed());
                    answered += 1;
                }
            }
            assert!(answered > 0, "{delay} {topology}: no answer");
        }
    }
}

#[test]
fn as_many_frames_are_lost_as_said() {
    let Some(lab) = Up::new("loss", &["--topology", "mesh", "--loss", "20%"]) else { return };
    let Some(nodes) = two_nodes(&lab) else { return };
    let [here, there] = sockets(&nodes);
    // Neighbours look for each other first, and that may be lost as well.
    let mut buffer = [0; 64];
    eventually("the first datagram", || here.send(b"!").is_ok() && there.recv(&mut buffer).is_ok());
    while there.recv(&mut buffer).is_ok() {}
    let mut seen = 0;
    for _ in 0..100 {
        for _ in 0..20 {
            here.send(b"there").expect("sent");
        }
        // Some of them always come, but whoever loses the others may wait for a processor first:
        // what is sent meanwhile would be more than there is room for.
        there.set_read_timeout(Some(Duration::from_secs(2))).expect("a limit");
        seen += usize::from(there.recv(&mut buffer).is_ok());
        there.set_read_timeout(Some(Duration::from_millis(3))).expect("a limit");
        seen += std::iter::from_fn(|| there.recv(&mut buffer).ok()).count();
    }
    there.set_read_timeout(Some(Duration::from_secs(2))).expect("a limit");
    seen += std::iter::from_fn(|| there.recv(&mut buffer).ok()).count();
    assert!((1300..1900).contains(&seen), "{seen} of 2000, where 1600 are expected");
}

/// Bytes a second of 100mbit, and what two limits in a row may let pass at once.
const RATE: f64 = 12.5e6;
const BURSTS: f64 = 2.0 * 70e3;

#[test]
fn a_stream_is_no_faster_than_its_cable() {
    for delay in [&[][..], &["--delay", "50us"]] {
        let shape = [&["--topology", "mesh", "--rate", "100mbit"], delay].concat();
        let Some(lab) = Up::new(&format!("rate{}", delay.len()), &shape) else { return };
        let Some(nodes) = two_nodes(&lab) else { return };
        let (ns, ip) = &nodes[1];
        let listener = ns.run(|| TcpListener::bind(SocketAddr::new(*ip, 0))).expect("a socket");
        let to = listener.local_addr().expect("an address");
        let mut here = nodes[0].0.run(|| TcpStream::connect(to)).expect("connected");
        let (mut there, _) = listener.accept().expect("accepted");
        let began = Instant::now();
        let sender = std::thread::spawn(move || here.write_all(&vec![7; 4 << 20]));
        let mut got = Vec::new();
        there.read_to_end(&mut got).expect("read");
        let took = began.elapsed().as_secs_f64();
        sender.join().expect("a thread").expect("written");
        assert_eq!(got.len(), 4 << 20);
        assert!(got.len() as f64 <= RATE * took + BURSTS, "{} bytes in {took} s", got.len());
    }
}

#[test]
fn packet_sockets_do_not_go_round_the_rate() {
    let Some(lab) = Up::new("round", &["--topology", "mesh", "--rate", "100mbit"]) else { return };
    let Some(nodes) = two_nodes(&lab) else { return };
    let open = || {
        let found = weft_sys::net::interface("to1a")?.expect("the cable");
        let config = PacketConfig {
            index: found.index,
            ethertype: 0x88b5,
            mtu: 1500,
            ring_frames: 8,
            groups: &[],
            whole_len: |_| None,
        };
        PacketSocket::open(&config).map_err(|e| std::io::Error::other(e.to_string()))
    };
    let socket = nodes[0].0.run(open).expect("a packet socket");
    let mut frame = vec![0; 1514];
    frame[..6].fill(0xff);
    // Switches drop what comes from no valid address.
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    let received = || {
        let bytes = "/sys/class/net/to0a/statistics/rx_bytes";
        let text = out(&lab.exec("node1", &["cat", bytes]));
        text.trim().parse::<f64>().expect("a number")
    };
    let (before, began) = (received(), Instant::now());
    while began.elapsed() < Duration::from_millis(300) {
        let _ = socket.send(&frame);
    }
    let got = received() - before;
    let took = began.elapsed().as_secs_f64();
    assert!(got > 0.0 && got <= RATE * took + BURSTS, "{got} bytes in {took} s");
}
