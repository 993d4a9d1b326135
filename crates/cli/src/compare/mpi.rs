//! The MPI libraries to compare with: finding them, compiling the benchmark for them, and the
//! command lines that run it within a node or over a cable.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cache::kept;
use super::contender::Plan;
use super::launcher::Launcher;
use crate::CliError;
use crate::bench::place::Place;

/// The benchmark that the libraries run; the same measurements as Weft's own.
const SOURCE: &str = include_str!("../../../../examples/mpi/pair.c");

/// An MPI library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brand {
    /// MPICH, with its launcher Hydra.
    Mpich,
    /// Open MPI, with its launcher PRRTE.
    OpenMpi,
}

impl Brand {
    /// All that are known.
    pub const ALL: [Brand; 2] = [Brand::Mpich, Brand::OpenMpi];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Brand::Mpich => "mpich",
            Brand::OpenMpi => "openmpi",
        }
    }

    /// What its launcher says when asked for its version.
    fn sign(self) -> &'static str {
        match self {
            Brand::Mpich => "HYDRA",
            Brand::OpenMpi => "Open MPI",
        }
    }
}

/// An installed MPI library with the benchmark compiled for it.
#[derive(Clone, Debug)]
pub struct Mpi {
    /// Which.
    pub brand: Brand,
    bin: PathBuf,
    program: PathBuf,
}

impl Mpi {
    /// Looks for the library in `.venv/NAME` and `.venv` of the current directory, in
    /// `VIRTUAL_ENV`, and on the path; `None` if it is in none of them.
    ///
    /// # Errors
    /// When it is there but the benchmark cannot be compiled.
    pub fn find(brand: Brand) -> Result<Option<Mpi>, CliError> {
        let Some(bin) = places(brand).into_iter().find(|bin| is_in(brand, bin)) else {
            return Ok(None);
        };
        let program = compile(brand, &bin)?;
        Ok(Some(Mpi { brand, bin, program }))
    }

    /// The command that measures what `plan` says, between two ranks on this node.
    pub fn within(&self, label: &str, plan: &Plan) -> Command {
        let mut command = self.launch(&[]);
        match self.brand {
            Brand::Mpich => command.env("MPIR_CVAR_CH4_NETMOD", "ofi"),
            Brand::OpenMpi => command.args(["--mca", "pml", "ob1", "--mca", "btl", "self,sm"]),
        };
        self.finish(&mut command, label, plan);
        command
    }

    /// The same between the two nodes of `place`, over TCP.
    pub fn between(&self, label: &str, plan: &Plan, place: &Place, by: &Launcher) -> Command {
        let site = place.site(0);
        let hosts = [site.ip.to_string(), site.peer_ip.to_string()];
        let mut command = self.launch(&place.prefix(0));
        match self.brand {
            Brand::Mpich => {
                by.stand_in(&mut command, &["-launcher", "ssh", "-launcher-exec"]);
                command.args(["-iface", &site.interface, "-hosts", &hosts.join(",")]);
                command.env("MPIR_CVAR_CH4_NETMOD", "ofi").env("FI_PROVIDER", "tcp");
            }
            Brand::OpenMpi => {
                by.stand_in(&mut command, &["--prtemca", "plm_ssh_agent"]);
                command.args(["--host", &format!("{}:1,{}:1", hosts[0], hosts[1])]);
                command.args(["--mca", "pml", "ob1", "--mca", "btl", "self,tcp"]);
                // By network, for the two ends' interfaces have different names.
                command.args(["--mca", "btl_tcp_if_include", &network(site.ip, site.peer_ip)]);
            }
        }
        self.finish(&mut command, label, plan);
        command
    }

    fn launch(&self, prefix: &[String]) -> Command {
        let launcher = self.bin.join("mpiexec");
        let mut command = match prefix.split_first() {
            None => Command::new(launcher),
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(launcher);
                command
            }
        };
        if self.brand == Brand::OpenMpi {
            // The benchmark chooses its processor itself, the same way for every library. A root
            // user in a container or a lab is not the danger that Open MPI warns of.
            command.args(["--bind-to", "none"]);
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
            command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        }
        command
    }

    fn finish(&self, command: &mut Command, label: &str, plan: &Plan) {
        command.args(["-n", "2"]).arg(&self.program).arg(label).arg(plan.ms.to_string());
        for (bench, sizes) in [("lat", &plan.lat_bytes), ("bw", &plan.bw_bytes)] {
            command.arg(bench).args(sizes.iter().map(u64::to_string));
        }
    }
}

/// The smallest network that two addresses are in, as in `10.0.0.0/30`.
fn network(a: Ipv4Addr, b: Ipv4Addr) -> String {
    let (a, b) = (u32::from(a), u32::from(b));
    let bits = (a ^ b).leading_zeros().min(30);
    let mask = if bits == 0 { 0 } else { u32::MAX << (32 - bits) };
    format!("{}/{bits}", Ipv4Addr::from(a & mask))
}

fn places(brand: Brand) -> Vec<PathBuf> {
    let mut roots = vec![PathBuf::from(".venv")];
    roots.extend(std::env::var_os("VIRTUAL_ENV").map(PathBuf::from));
    let mut all: Vec<PathBuf> = roots
        .iter()
        .flat_map(|root| [root.join(brand.name()).join("bin"), root.join("bin")])
        .collect();
    all.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    all.into_iter().filter_map(|bin| fs::canonicalize(bin).ok()).collect()
}

fn is_in(brand: Brand, bin: &Path) -> bool {
    if !bin.join("mpiexec").exists() || !bin.join("mpicc").exists() {
        return false;
    }
    let said = Command::new(bin.join("mpiexec")).arg("--version").output();
    said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains(brand.sign()))
}

/// Compiles the benchmark, once for each version of it and each library.
fn compile(brand: Brand, bin: &Path) -> Result<PathBuf, CliError> {
    kept(&format!("pair-{}", brand.name()), (SOURCE, bin), |own| {
        let source = own.with_extension("c");
        fs::write(&source, SOURCE).map_err(CliError::io(format!("write {}", source.display())))?;
        let mut mpicc = Command::new(bin.join("mpicc"));
        let done = mpicc.args(["-O2", "-o"]).arg(own).arg(&source).output();
        let _ = fs::remove_file(&source);
        let done = done.map_err(CliError::io(format!("run {}/mpicc", bin.display())))?;
        if done.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stderr);
        Err(CliError::Bench(format!(
            "{}'s mpicc cannot compile the benchmark (is a C compiler installed?): {}",
            brand.name(),
            said.trim()
        )))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ends_of_a_cable_are_in_one_network() {
        let of = |a: [u8; 4], b: [u8; 4]| network(a.into(), b.into());
        assert_eq!(of([10, 64, 0, 1], [10, 64, 0, 2]), "10.64.0.0/30");
        assert_eq!(of([10, 100, 0, 1], [10, 100, 1, 1]), "10.100.0.0/23");
        assert_eq!(of([10, 0, 0, 1], [200, 0, 0, 1]), "0.0.0.0/0");
    }
}
