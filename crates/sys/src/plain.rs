//! Numbers as bytes and back, in the byte order of the machine, without a copy.

mod sealed {
    pub trait Sealed {}
}

/// A number all of whose bits are its own and each pattern of which is a value: a row of them is a
/// row of bytes, and any row of bytes of the right length is a row of them.
pub trait Plain: Copy + Send + Sync + sealed::Sealed + 'static {}

macro_rules! plain {
    ($($number:ty),*) => {$(
        impl sealed::Sealed for $number {}
        impl Plain for $number {}
    )*};
}
plain!(i8, u8, i16, u16, i32, u32, i64, u64, i128, u128, f32, f64);

/// The bytes of `row`.
pub fn bytes<T: Plain>(row: &[T]) -> &[u8] {
    // SAFETY: `Plain` is sealed and implemented for numbers without padding; the row has
    // `size_of_val` bytes, and any address is aligned for bytes.
    unsafe { std::slice::from_raw_parts(row.as_ptr().cast(), size_of_val(row)) }
}

/// The bytes of `row`, to be changed.
pub fn bytes_mut<T: Plain>(row: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `bytes`; whatever is written, each element is a value, for every pattern of
    // bits of such a number is one.
    unsafe { std::slice::from_raw_parts_mut(row.as_mut_ptr().cast(), size_of_val(row)) }
}

/// The numbers that bytes are; `None` if they are no whole number of them, or not aligned.
pub fn numbers<T: Plain>(bytes: &[u8]) -> Option<&[T]> {
    // SAFETY: every pattern of bits is a `T`.
    let (before, row, after) = unsafe { bytes.align_to::<T>() };
    (before.is_empty() && after.is_empty()).then_some(row)
}

/// As [`numbers`], to be changed.
pub fn numbers_mut<T: Plain>(bytes: &mut [u8]) -> Option<&mut [T]> {
    // SAFETY: as in `numbers`; the bits of each `T` are its own.
    let (before, row, after) = unsafe { bytes.align_to_mut::<T>() };
    (before.is_empty() && after.is_empty()).then_some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_bytes_are_rows_of_numbers_where_they_fit() {
        let mut row = [1u32, 2, 3];
        assert_eq!(numbers::<u32>(bytes(&row)), Some(&[1, 2, 3][..]));
        assert!(numbers::<u32>(&bytes(&row)[1..]).is_none());
        assert!(numbers::<u32>(&bytes(&row)[..6]).is_none());
        assert_eq!(numbers::<u32>(&[]), Some(&[][..]));
        numbers_mut::<u32>(bytes_mut(&mut row)).unwrap()[1] = 9;
        assert_eq!(row, [1, 9, 3]);
    }

    #[test]
    fn rows_of_numbers_are_rows_of_bytes() {
        let mut row = [1u32, 0x0102_0304];
        assert_eq!(bytes(&row).len(), 8);
        assert_eq!(bytes(&row)[4..], 0x0102_0304u32.to_ne_bytes());
        bytes_mut(&mut row)[..4].copy_from_slice(&7u32.to_ne_bytes());
        assert_eq!(row[0], 7);
        assert!(bytes::<f64>(&[]).is_empty());
    }
}
