//! Where a process can be reached: 64 bytes that travel through any wire-up.

use std::net::{IpAddr, Ipv4Addr};

use weft_sys::{cpu, net};
pub use weft_wire::Address;

use crate::env;
use crate::error::Error;

/// This process's address, with a port of its own and a nonce that no other has.
///
/// # Errors
/// [`Error::Setting`] when `WEFT_NODE` cannot be read, [`Error::Os`] when the kernel does not say
/// which node this is.
pub fn own(port: u16) -> Result<Address, Error> {
    let os = |e| Error::system("finding out this node's id", &e);
    let node = match env::value::<u64>("WEFT_NODE")? {
        Some(node) => node,
        None => cpu::node_id().map_err(os)?,
    };
    let mut nonce = [0; 8];
    cpu::random(&mut nonce).map_err(os)?;
    let host = weft_sys::ns::host_name();
    let mut address =
        Address::new(node, u64::from_ne_bytes(nonce), port, std::process::id(), &host);
    // The udp link takes this number, too, if it is free.
    address.udp_port = port;
    let filter = net::InterfaceFilter::from_env().unwrap_or_default();
    let interfaces = net::interfaces().unwrap_or_default();
    let mut ipv4 = 0;
    for ip in filter.admitted(&interfaces).into_iter().flat_map(|i| &i.addresses) {
        match ip.addr {
            IpAddr::V4(v4) if ipv4 < 2 && v4 != Ipv4Addr::UNSPECIFIED => {
                address.ipv4[ipv4] = v4;
                ipv4 += 1;
            }
            IpAddr::V6(v6) if address.ipv6.is_unspecified() && !v6.is_unicast_link_local() => {
                address.ipv6 = v6;
            }
            _ => {}
        }
    }
    Ok(address)
}
