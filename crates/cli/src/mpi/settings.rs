//! The environment that puts an MPI library on a transport.

use super::install::Version;
use super::{Brand, Install, Provider};

/// Before this version Open MPI's one-sided operations by libfabric's own (osc/rdma) reach the
/// wrong rank where some nodes have more ranks than others, and nothing says so. Those by messages
/// (osc/pt2pt) go first there.
const RDMA_FINDS_PEERS: Version = (4, 1, 6);

/// What an MPI library sends its messages by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Transport {
    /// Weft, for everything.
    #[default]
    Weft,
    /// The library's own shared memory within a node and TCP between nodes, for comparison.
    Own,
}

/// Whether Weft does collective operations for so many ranks, all on one node, if nobody says
/// otherwise: small ones go by memory that they share, which is faster than messages; and where
/// ranks outnumber processors, one that waits for messages round after round would have to be given
/// a processor for each.
pub fn collectives_by_weft(ranks: u32) -> bool {
    ranks > 1
}

/// Names and values of the variables that put `install` on a transport. Each library then either
/// uses that transport or fails when it starts: none falls back to another one silently.
pub fn variables(
    install: &Install,
    transport: Transport,
    provider: Option<&Provider>,
) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    let mut set = |name, value: &str| all.push((name, value.to_string()));
    match (install.brand, transport) {
        (Brand::Mpich, Transport::Weft) => {
            set("MPIR_CVAR_CH4_NETMOD", "ofi");
            // Weft carries what stays within a node, too.
            set("MPIR_CVAR_NOLOCAL", "1");
        }
        (Brand::Mpich, Transport::Own) => {
            set("MPIR_CVAR_CH4_NETMOD", "ofi");
            set("FI_PROVIDER", "tcp");
        }
        (Brand::OpenMpi, Transport::Weft) => {
            // By name: where only preferred, another one would be taken if Weft could not be.
            set("OMPI_MCA_pml", "cm");
            set("OMPI_MCA_mtl", "ofi");
            // For remote memory; `self` is for messages of a rank to itself there.
            set("OMPI_MCA_btl", "self,ofi");
            set("OMPI_MCA_osc", "^ucx");
            if install.version < RDMA_FINDS_PEERS {
                set("OMPI_MCA_osc_rdma_priority", "5");
            }
            if install.version.0 >= 5 {
                set("OMPI_MCA_opal_common_ofi_provider_include", "weft");
            } else {
                set("OMPI_MCA_mtl_ofi_provider_include", "weft");
                set("OMPI_MCA_btl_ofi_provider_include", "weft");
            }
        }
        (Brand::OpenMpi, Transport::Own) => {
            let shared = if install.version.0 >= 5 { "sm" } else { "vader" };
            set("OMPI_MCA_pml", "ob1");
            set("OMPI_MCA_btl", &format!("self,{shared},tcp"));
        }
        (Brand::Intel, Transport::Weft) => {
            set("I_MPI_FABRICS", "ofi");
            set("I_MPI_OFI_PROVIDER", "weft");
            // Not by memory of its own within a node: there it would look for what Weft cannot wake
            // it for. (4 ranks of 2 cores: a barrier of 1.1 ms, and of 5 us so.)
            set("I_MPI_COLL_INTRANODE", "pt2pt");
        }
        (Brand::Intel, Transport::Own) => {
            // What it does by itself: shared memory alone in jobs of one node.
            set("I_MPI_FABRICS", "");
            set("I_MPI_OFI_PROVIDER", "tcp");
            set("FI_PROVIDER", "tcp");
        }
    }
    if install.brand == Brand::Intel {
        all.extend(libfabric_of(install, transport));
    }
    if transport == Transport::Weft {
        all.push(("FI_PROVIDER", "weft".to_string()));
        all.extend(provider.map(|provider| {
            ("FI_PROVIDER_PATH", provider.directory.to_string_lossy().into_owned())
        }));
    }
    all
}

/// Which libfabric Intel MPI is to open, and where that finds its own providers.
fn libfabric_of(install: &Install, transport: Transport) -> Vec<(&'static str, String)> {
    let Ok(libfabric) = install.libfabric() else { return Vec::new() };
    // Otherwise the first one that the dynamic loader finds, which may be another one.
    let mut all = vec![("I_MPI_OFI_LIBRARY", libfabric.to_string_lossy().into_owned())];
    if let (Transport::Own, Some(folder)) = (transport, libfabric.parent()) {
        let own = Some(folder.join("prov")).filter(|own| own.exists());
        let own = own.unwrap_or(folder.to_path_buf());
        all.push(("FI_PROVIDER_PATH", own.to_string_lossy().into_owned()));
    }
    all
}
