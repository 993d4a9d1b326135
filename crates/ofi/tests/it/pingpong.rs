//! libfabric's own ping-pong program.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::library::{CHOICE, library, provider_folder};

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port of the loopback interface");
    listener.local_addr().expect("its number").port()
}

#[test]
fn the_ping_pong_program_verifies_messages_of_all_sizes() {
    // It is of the libfabric that is installed, whatever the other tests use.
    if std::env::var_os(CHOICE).is_some() || library().is_none() {
        return;
    }
    if Command::new("fi_pingpong").arg("-h").output().is_err() {
        println!("SKIPPED: fi_pingpong is not installed (scripts/setup.sh test installs it)");
        return;
    }
    let folder = provider_folder();
    for tagged in ["msg", "tagged"] {
        let port = free_port().to_string();
        let command = |side: &[&str]| {
            let mut command = Command::new("fi_pingpong");
            command.args(["-p", "weft", "-e", "rdm", "-c", "-I", "3", "-S", "all", "-m", tagged]);
            command.args(side).env("FI_PROVIDER_PATH", &folder).env("FI_PROVIDER", "weft");
            command
        };
        let mut server = command(&["-B", &port]);
        let mut server = server.stdout(Stdio::null()).spawn().expect("the server starts");
        // The client gives up at once where nobody listens yet.
        let mut said = String::new();
        let good = (0..600).any(|_| {
            thread::sleep(Duration::from_millis(100));
            let output = command(&["-P", &port, "127.0.0.1"]).output().expect("the client runs");
            said = String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr);
            output.status.success() || server.try_wait().is_ok_and(|ended| ended.is_some())
        });
        assert!(good && said.contains("4m"), "{said}");
        assert!(server.wait().expect("the server ends").success());
    }
    let _ = std::fs::remove_dir_all(folder);
}
