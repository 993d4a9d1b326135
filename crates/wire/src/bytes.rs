//! Reading and writing little-endian integers at fixed places. The callers have checked lengths;
//! a read past the end gives zero rather than a panic, so that no input can stop a process.

/// Up to eight bytes at `at`, as an integer; zero where the bytes end.
#[inline]
pub(crate) fn get<const N: usize>(b: &[u8], at: usize) -> [u8; N] {
    match b.get(at..at + N) {
        Some(s) => {
            let mut out = [0; N];
            out.copy_from_slice(s);
            out
        }
        None => [0; N],
    }
}

#[inline]
pub(crate) fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(get(b, at))
}

#[inline]
pub(crate) fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(get(b, at))
}

#[inline]
pub(crate) fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(get(b, at))
}

/// Writes `bytes` at `at`.
#[inline]
pub(crate) fn put<const N: usize>(b: &mut [u8], at: usize, bytes: [u8; N]) {
    b[at..at + N].copy_from_slice(&bytes);
}
