//! Whole rows combined element by element, for reductions.

use super::atomic::{AtomicOp, Complex, Number, Scalar};

/// Whether an operation may be used to reduce: it has two operands, and its result does not depend
/// on how they are bracketed.
pub(crate) fn reduces(op: AtomicOp, scalar: Scalar) -> bool {
    let of_two = matches!(
        op,
        AtomicOp::Min
            | AtomicOp::Max
            | AtomicOp::Sum
            | AtomicOp::Product
            | AtomicOp::LogicalOr
            | AtomicOp::LogicalAnd
            | AtomicOp::LogicalXor
            | AtomicOp::BitOr
            | AtomicOp::BitAnd
            | AtomicOp::BitXor
    );
    of_two && op.takes(scalar)
}

/// Sets each element of `left` to what `op` makes of it and that of `right`; they have the same
/// length. Elements that [`reduces`] refuses stay as they are.
pub(crate) fn fold(op: AtomicOp, scalar: Scalar, left: &mut [u8], right: &[u8]) {
    match scalar {
        Scalar::I8 => rows::<i8>(op, left, right),
        Scalar::U8 => rows::<u8>(op, left, right),
        Scalar::I16 => rows::<i16>(op, left, right),
        Scalar::U16 => rows::<u16>(op, left, right),
        Scalar::I32 => rows::<i32>(op, left, right),
        Scalar::U32 => rows::<u32>(op, left, right),
        Scalar::I64 => rows::<i64>(op, left, right),
        Scalar::U64 => rows::<u64>(op, left, right),
        Scalar::I128 => rows::<i128>(op, left, right),
        Scalar::U128 => rows::<u128>(op, left, right),
        Scalar::F32 => rows::<f32>(op, left, right),
        Scalar::F64 => rows::<f64>(op, left, right),
        Scalar::ComplexF32 => rows::<Complex<f32>>(op, left, right),
        Scalar::ComplexF64 => rows::<Complex<f64>>(op, left, right),
        Scalar::Opaque16 | Scalar::Opaque32 => {}
    }
}

/// A loop for each operation, so that there is no choice left inside.
fn rows<T: Number>(op: AtomicOp, left: &mut [u8], right: &[u8]) {
    macro_rules! loops {
        ($($name:ident),*) => {
            match op {
                $(AtomicOp::$name => row(left, right, |l: T, r| {
                    T::combine(AtomicOp::$name, l, r, r).unwrap_or(l)
                }),)*
                _ => {}
            }
        };
    }
    loops!(Min, Max, Sum, Product, LogicalOr, LogicalAnd, LogicalXor, BitOr, BitAnd, BitXor);
}

#[inline]
fn row<T: Number>(left: &mut [u8], right: &[u8], f: impl Fn(T, T) -> T) {
    let size = size_of::<T>();
    for (l, r) in left.chunks_exact_mut(size).zip(right.chunks_exact(size)) {
        f(T::read(l), T::read(r)).write(l);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_combined_element_by_element() {
        let bytes = |row: &[f32]| row.iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<_>>();
        let mut left = bytes(&[1.0, 2.0, 3.0]);
        fold(AtomicOp::Sum, Scalar::F32, &mut left, &bytes(&[0.5, 0.25, -3.0]));
        assert_eq!(left, bytes(&[1.5, 2.25, 0.0]));
        fold(AtomicOp::Max, Scalar::F32, &mut left, &bytes(&[9.0, 0.0, -1.0]));
        assert_eq!(left, bytes(&[9.0, 2.25, 0.0]));
        let mut left = [0b1100, 0xff];
        fold(AtomicOp::BitXor, Scalar::U8, &mut left, &[0b1010, 0xff]);
        assert_eq!(left, [0b0110, 0]);
    }

    #[test]
    fn what_is_no_reduction_is_refused() {
        assert!(reduces(AtomicOp::Sum, Scalar::ComplexF64));
        for op in [AtomicOp::Difference, AtomicOp::Read, AtomicOp::Write, AtomicOp::SwapIfEqual] {
            assert!(!reduces(op, Scalar::I32), "{op:?}");
        }
        assert!(!reduces(AtomicOp::BitOr, Scalar::F64));
        assert!(!reduces(AtomicOp::Sum, Scalar::Opaque16));
    }
}
