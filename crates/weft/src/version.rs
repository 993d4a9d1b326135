//! Which versions of what this Weft speaks; what they promise is in `docs/versions.md`.

/// Weft's own version, as in "0.2.0".
pub const WEFT: &str = env!("CARGO_PKG_VERSION");

/// The version of frames and of what is in them. Processes of one job must agree in it.
pub const WIRE: u8 = weft_wire::VERSION;

/// The versions of libfabric's interface, major and minor, that the provider works with: from the
/// oldest to the newest. Nothing in the interface has taken anything away since the oldest, so
/// later minor versions of the newest are taken as well.
pub const LIBFABRIC: [(u32, u32); 2] = [(1, 17), (2, 99)];

/// The provider's own version, major and minor, as libfabric is told it: Weft's, without its last
/// number.
pub const PROVIDER: (u32, u32) = (0, 2);

/// The name that programs in C are linked to.
pub const C_LIBRARY: &str = "libweft.so.0";

/// The newest version, major and minor, of that library's symbols.
pub const C_SYMBOLS: (u32, u32) = (0, 2);
