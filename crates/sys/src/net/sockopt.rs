//! Socket options and interface requests that rustix does not have.

use std::io;
use std::mem;
use std::os::fd::RawFd;
use std::path::Path;

/// Bytes of an interface's name with its closing zero.
const NAME_LEN: usize = libc::IFNAMSIZ;

/// Sets an option whose value is a plain C structure.
pub(crate) fn set<T: Copy>(fd: RawFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let len = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes at `value`, which is exactly one `T`.
    let done = unsafe { libc::setsockopt(fd, level, name, (&raw const *value).cast(), len) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Reads an option made of 32-bit integers, `N` of them, and gives how many bytes the kernel wrote.
pub(crate) fn get_words<const N: usize>(fd: RawFd, level: i32, name: i32) -> io::Result<[u32; N]> {
    let mut value = [0u32; N];
    let mut len = mem::size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the size of `value`; any bits are valid
    // `u32`s.
    let done =
        unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut len) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// The error that waits on a socket, if there is one; asking removes it.
pub(crate) fn take_error(fd: RawFd) -> Option<io::Error> {
    match get_words::<1>(fd, libc::SOL_SOCKET, libc::SO_ERROR) {
        Ok([0]) => None,
        Ok([code]) => Some(io::Error::from_raw_os_error(code as i32)),
        Err(error) => Some(error),
    }
}

/// Makes a socket buffer `bytes` large, or as large as the system's limit allows, and gives the
/// size that it has. `forced` may exceed the limit and needs CAP_NET_ADMIN; `plain` obeys it.
pub(crate) fn grow_buffer(fd: RawFd, forced: i32, plain: i32, bytes: usize) -> io::Result<usize> {
    let want = i32::try_from(bytes).unwrap_or(i32::MAX);
    if set(fd, libc::SOL_SOCKET, forced, &want).is_err() {
        set(fd, libc::SOL_SOCKET, plain, &want)?;
    }
    let [has] = get_words::<1>(fd, libc::SOL_SOCKET, plain)?;
    // The kernel doubles what was asked for, to pay for its own bookkeeping.
    Ok(has as usize / 2)
}

/// An interface request with the name filled in.
///
/// # Errors
/// `ENODEV` when no interface can have that name.
fn request(name: &str) -> io::Result<libc::ifreq> {
    if name.is_empty() || name.len() >= NAME_LEN || name.bytes().any(|b| b == 0) {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    // SAFETY: `ifreq` is plain data for which all zeros are valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// An `ioctl` on an interface request.
fn ask(fd: RawFd, what: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: each `what` used in this module makes the kernel read and write one `ifreq`, and, for
    // SIOCETHTOOL, the buffer that its data pointer names, which `ethtool` keeps alive.
    let done = unsafe { libc::ioctl(fd, what as _, &raw mut *request) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The flags (`IFF_UP` and so on) of an interface.
pub(crate) fn interface_flags(fd: RawFd, name: &str) -> io::Result<u32> {
    let mut request = request(name)?;
    ask(fd, libc::SIOCGIFFLAGS as libc::c_ulong, &mut request)?;
    // SAFETY: SIOCGIFFLAGS succeeded, so the union holds flags.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    Ok(flags as u16 as u32)
}

/// The MTU of an interface, bytes.
pub(crate) fn interface_mtu(fd: RawFd, name: &str) -> io::Result<usize> {
    let mut request = request(name)?;
    ask(fd, libc::SIOCGIFMTU as libc::c_ulong, &mut request)?;
    // SAFETY: SIOCGIFMTU succeeded, so the union holds the MTU.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    Ok(usize::try_from(mtu).unwrap_or(0))
}

/// Whether the interface is wireless: whether it answers to the wireless extensions, which not all
/// kernels have any more, or has a radio.
pub(crate) fn is_wireless(fd: RawFd, name: &str) -> bool {
    const SIOCGIWNAME: libc::c_ulong = 0x8B01;
    has_radio(Path::new("/"), name)
        || request(name).is_ok_and(|mut request| ask(fd, SIOCGIWNAME, &mut request).is_ok())
}

/// Whether the interface has a radio, by the `sys` under `root`.
fn has_radio(root: &Path, name: &str) -> bool {
    root.join("sys/class/net").join(name).join("phy80211").exists()
}

/// An ethtool request: `words` begins with the command, and is answered in place.
pub(crate) fn ethtool(fd: RawFd, name: &str, words: &mut [u32]) -> io::Result<()> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    ask(fd, libc::SIOCETHTOOL, &mut request)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_radio_is_told_by_what_sys_shows() {
        let root = std::env::temp_dir().join(format!("weft-radio-{}", std::process::id()));
        let of = |name: &str| root.join("sys/class/net").join(name);
        ["wlan0", "eth0"].iter().for_each(|name| fs::create_dir_all(of(name)).unwrap());
        let radio = root.join("sys/devices/phy0");
        fs::create_dir_all(&radio).unwrap();
        symlink(&radio, of("wlan0").join("phy80211")).unwrap();
        let found = ["wlan0", "eth0", "gone"].map(|name| has_radio(&root, name));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, [true, false, false]);
    }
}
