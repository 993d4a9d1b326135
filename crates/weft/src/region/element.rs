//! Numbers that atomic operations on regions take and give.

use crate::remote::Scalar;

mod sealed {
    pub trait Sealed {}
}

/// A number of a region that can be changed in one step: all whole numbers from 8 to 128 bits,
/// `f32` and `f64`. It is a multiple of its size from the beginning of the region, in the byte
/// order of the machine.
pub trait Element: sealed::Sealed + Copy {
    /// Its type.
    const SCALAR: Scalar;

    /// Appends its bytes.
    fn append(self, to: &mut Vec<u8>);

    /// From its bytes, of which there are as many as [`Scalar::size`] says.
    fn from_slice(bytes: &[u8]) -> Self;
}

macro_rules! elements {
    ($($number:ty: $scalar:ident),*) => {$(
        impl sealed::Sealed for $number {}
        impl Element for $number {
            const SCALAR: Scalar = Scalar::$scalar;

            fn append(self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_ne_bytes());
            }

            fn from_slice(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<$number>()];
                own.copy_from_slice(bytes);
                <$number>::from_ne_bytes(own)
            }
        }
    )*};
}
elements!(i8: I8, u8: U8, i16: I16, u16: U16, i32: I32, u32: U32, i64: I64, u64: U64);
elements!(i128: I128, u128: U128, f32: F32, f64: F64);

/// The bytes of numbers, in the byte order of the machine.
pub(crate) fn bytes_of<T: Element>(elements: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of_val(elements));
    elements.iter().for_each(|element| element.append(&mut bytes));
    bytes
}

/// The numbers that bytes are, in the byte order of the machine: what
/// [`Endpoint::ifetch_and_op`](crate::endpoint::Endpoint::ifetch_and_op) has fetched. Bytes that
/// are no whole number are left out.
pub fn elements<T: Element>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(T::SCALAR.size()).map(T::from_slice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_through_bytes() {
        assert_eq!(elements::<i16>(&bytes_of(&[-2i16, 300])), [-2, 300]);
        assert_eq!(elements::<f64>(&bytes_of(&[0.25f64])), [0.25]);
        assert_eq!(elements::<u32>(&[1; 7]).len(), 1);
    }
}
