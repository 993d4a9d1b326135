//! Atomic operations: what becomes of an element, for each operation and type.

use weft_sys::buf::Buf;

/// Elements of one operation at most.
pub const ELEMENTS_MAX: usize = 512;

/// Bytes of the largest element.
const SIZE_MAX: usize = 32;

/// What is done with an element `t` of the window, an operand `a`, and, for the last ones, a
/// comparand `c`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum AtomicOp {
    /// The lesser of `t` and `a`.
    Min,
    /// The greater.
    Max,
    /// `t + a`; whole numbers wrap around.
    Sum,
    /// `t * a`; whole numbers wrap around.
    Product,
    /// `t - a`; whole numbers wrap around.
    Difference,
    /// 1 if either is not zero, else 0.
    LogicalOr,
    /// 1 if both are not zero, else 0.
    LogicalAnd,
    /// 1 if exactly one is not zero, else 0.
    LogicalXor,
    /// `t | a`.
    BitOr,
    /// `t & a`.
    BitAnd,
    /// `t ^ a`.
    BitXor,
    /// `t`: nothing is changed.
    Read,
    /// `a`.
    Write,
    /// `a` if `c == t`.
    SwapIfEqual,
    /// `a` if `c != t`.
    SwapIfNotEqual,
    /// `a` if `c <= t`.
    SwapIfLessOrEqual,
    /// `a` if `c < t`.
    SwapIfLess,
    /// `a` if `c >= t`.
    SwapIfGreaterOrEqual,
    /// `a` if `c > t`.
    SwapIfGreater,
    /// `a` in the bits that are set in `c`, `t` in the others.
    SwapMasked,
}

impl AtomicOp {
    /// All, by their numbers on the wire.
    pub const ALL: [AtomicOp; 20] = [
        AtomicOp::Min,
        AtomicOp::Max,
        AtomicOp::Sum,
        AtomicOp::Product,
        AtomicOp::Difference,
        AtomicOp::LogicalOr,
        AtomicOp::LogicalAnd,
        AtomicOp::LogicalXor,
        AtomicOp::BitOr,
        AtomicOp::BitAnd,
        AtomicOp::BitXor,
        AtomicOp::Read,
        AtomicOp::Write,
        AtomicOp::SwapIfEqual,
        AtomicOp::SwapIfNotEqual,
        AtomicOp::SwapIfLessOrEqual,
        AtomicOp::SwapIfLess,
        AtomicOp::SwapIfGreaterOrEqual,
        AtomicOp::SwapIfGreater,
        AtomicOp::SwapMasked,
    ];

    /// Whether it needs a comparand for each element.
    pub fn compares(self) -> bool {
        self as u8 >= AtomicOp::SwapIfEqual as u8
    }

    /// Whether it can be done with elements of this type.
    pub fn takes(self, scalar: Scalar) -> bool {
        let zero = [0; SIZE_MAX];
        scalar.change(self, &zero, &zero, &zero).is_some()
    }
}

/// The type of an element, in the byte order of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Scalar {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    I128,
    U128,
    F32,
    F64,
    /// Two `F32`, the real part first.
    ComplexF32,
    /// Two `F64`, the real part first.
    ComplexF64,
    /// Sixteen bytes that can be read and written only (C's `long double`).
    Opaque16,
    /// Thirty-two bytes that can be read and written only.
    Opaque32,
}

/// A number that elements are taken for, and what operations make of it.
pub(super) trait Number: Copy {
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
    /// `None`: there is no such operation for the type.
    fn combine(op: AtomicOp, t: Self, a: Self, c: Self) -> Option<Self>;
}

macro_rules! bytes_of {
    ($number:ty) => {
        fn read(bytes: &[u8]) -> Self {
            let mut own = [0; size_of::<$number>()];
            own.copy_from_slice(&bytes[..size_of::<$number>()]);
            <$number>::from_ne_bytes(own)
        }
        fn write(self, bytes: &mut [u8]) {
            bytes[..size_of::<$number>()].copy_from_slice(&self.to_ne_bytes());
        }
    };
}

macro_rules! ordered_swaps {
    ($op:expr, $t:expr, $a:expr, $c:expr) => {
        match $op {
            AtomicOp::SwapIfEqual => Some(if $c == $t { $a } else { $t }),
            AtomicOp::SwapIfNotEqual => Some(if $c != $t { $a } else { $t }),
            AtomicOp::SwapIfLessOrEqual => Some(if $c <= $t { $a } else { $t }),
            AtomicOp::SwapIfLess => Some(if $c < $t { $a } else { $t }),
            AtomicOp::SwapIfGreaterOrEqual => Some(if $c >= $t { $a } else { $t }),
            AtomicOp::SwapIfGreater => Some(if $c > $t { $a } else { $t }),
            _ => None,
        }
    };
}

macro_rules! whole_number {
    ($($number:ty),*) => {$(
        impl Number for $number {
            bytes_of!($number);
            #[inline]
            fn combine(op: AtomicOp, t: Self, a: Self, c: Self) -> Option<Self> {
                let truth = |yes: bool| Some(<$number>::from(yes));
                match op {
                    AtomicOp::Min => Some(t.min(a)),
                    AtomicOp::Max => Some(t.max(a)),
                    AtomicOp::Sum => Some(t.wrapping_add(a)),
                    AtomicOp::Product => Some(t.wrapping_mul(a)),
                    AtomicOp::Difference => Some(t.wrapping_sub(a)),
                    AtomicOp::LogicalOr => truth(t != 0 || a != 0),
                    AtomicOp::LogicalAnd => truth(t != 0 && a != 0),
                    AtomicOp::LogicalXor => truth((t != 0) != (a != 0)),
                    AtomicOp::BitOr => Some(t | a),
                    AtomicOp::BitAnd => Some(t & a),
                    AtomicOp::BitXor => Some(t ^ a),
                    AtomicOp::Read => Some(t),
                    AtomicOp::Write => Some(a),
                    AtomicOp::SwapMasked => Some((a & c) | (t & !c)),
                    _ => ordered_swaps!(op, t, a, c),
                }
            }
        }
    )*};
}
whole_number!(i8, u8, i16, u16, i32, u32, i64, u64, i128, u128);

macro_rules! real_number {
    ($($number:ty),*) => {$(
        impl Number for $number {
            bytes_of!($number);
            #[inline]
            fn combine(op: AtomicOp, t: Self, a: Self, c: Self) -> Option<Self> {
                let truth = |yes: bool| Some(if yes { 1.0 } else { 0.0 });
                match op {
                    AtomicOp::Min => Some(if a < t { a } else { t }),
                    AtomicOp::Max => Some(if a > t { a } else { t }),
                    AtomicOp::Sum => Some(t + a),
                    AtomicOp::Product => Some(t * a),
                    AtomicOp::Difference => Some(t - a),
                    AtomicOp::LogicalOr => truth(t != 0.0 || a != 0.0),
                    AtomicOp::LogicalAnd => truth(t != 0.0 && a != 0.0),
                    AtomicOp::LogicalXor => truth((t != 0.0) != (a != 0.0)),
                    AtomicOp::Read => Some(t),
                    AtomicOp::Write => Some(a),
                    _ => ordered_swaps!(op, t, a, c),
                }
            }
        }
    )*};
}
real_number!(f32, f64);

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Complex<T>(T, T);

macro_rules! complex_number {
    ($($number:ty),*) => {$(
        impl Number for Complex<$number> {
            fn read(bytes: &[u8]) -> Self {
                let size = size_of::<$number>();
                Complex(<$number>::read(bytes), <$number>::read(&bytes[size..]))
            }
            fn write(self, bytes: &mut [u8]) {
                self.0.write(bytes);
                self.1.write(&mut bytes[size_of::<$number>()..]);
            }
            #[inline]
            fn combine(op: AtomicOp, t: Self, a: Self, c: Self) -> Option<Self> {
                let zero = Complex(0.0, 0.0);
                let truth = |yes: bool| Some(Complex(if yes { 1.0 } else { 0.0 }, 0.0));
                match op {
                    AtomicOp::Sum => Some(Complex(t.0 + a.0, t.1 + a.1)),
                    AtomicOp::Difference => Some(Complex(t.0 - a.0, t.1 - a.1)),
                    AtomicOp::Product => {
                        Some(Complex(t.0 * a.0 - t.1 * a.1, t.0 * a.1 + t.1 * a.0))
                    }
                    AtomicOp::LogicalOr => truth(t != zero || a != zero),
                    AtomicOp::LogicalAnd => truth(t != zero && a != zero),
                    AtomicOp::LogicalXor => truth((t != zero) != (a != zero)),
                    AtomicOp::Read => Some(t),
                    AtomicOp::Write => Some(a),
                    AtomicOp::SwapIfEqual => Some(if c == t { a } else { t }),
                    AtomicOp::SwapIfNotEqual => Some(if c != t { a } else { t }),
                    _ => None,
                }
            }
        }
    )*};
}
complex_number!(f32, f64);

impl<const N: usize> Number for [u8; N] {
    fn read(bytes: &[u8]) -> Self {
        let mut own = [0; N];
        own.copy_from_slice(&bytes[..N]);
        own
    }
    fn write(self, bytes: &mut [u8]) {
        bytes[..N].copy_from_slice(&self);
    }
    fn combine(op: AtomicOp, t: Self, a: Self, _: Self) -> Option<Self> {
        match op {
            AtomicOp::Read => Some(t),
            AtomicOp::Write => Some(a),
            _ => None,
        }
    }
}

fn combine<T: Number>(op: AtomicOp, t: &[u8], a: &[u8], c: &[u8]) -> Option<[u8; SIZE_MAX]> {
    let mut result = [0; SIZE_MAX];
    T::combine(op, T::read(t), T::read(a), T::read(c))?.write(&mut result);
    Some(result)
}

impl Scalar {
    /// All, by their numbers on the wire.
    pub const ALL: [Scalar; 16] = [
        Scalar::I8,
        Scalar::U8,
        Scalar::I16,
        Scalar::U16,
        Scalar::I32,
        Scalar::U32,
        Scalar::I64,
        Scalar::U64,
        Scalar::I128,
        Scalar::U128,
        Scalar::F32,
        Scalar::F64,
        Scalar::ComplexF32,
        Scalar::ComplexF64,
        Scalar::Opaque16,
        Scalar::Opaque32,
    ];

    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Scalar::I8 | Scalar::U8 => 1,
            Scalar::I16 | Scalar::U16 => 2,
            Scalar::I32 | Scalar::U32 | Scalar::F32 => 4,
            Scalar::I64 | Scalar::U64 | Scalar::F64 | Scalar::ComplexF32 => 8,
            Scalar::I128 | Scalar::U128 | Scalar::ComplexF64 | Scalar::Opaque16 => 16,
            Scalar::Opaque32 => 32,
        }
    }

    /// What becomes of the element `t`; each slice has at least [`Scalar::size`] bytes.
    fn change(self, op: AtomicOp, t: &[u8], a: &[u8], c: &[u8]) -> Option<[u8; SIZE_MAX]> {
        match self {
            Scalar::I8 => combine::<i8>(op, t, a, c),
            Scalar::U8 => combine::<u8>(op, t, a, c),
            Scalar::I16 => combine::<i16>(op, t, a, c),
            Scalar::U16 => combine::<u16>(op, t, a, c),
            Scalar::I32 => combine::<i32>(op, t, a, c),
            Scalar::U32 => combine::<u32>(op, t, a, c),
            Scalar::I64 => combine::<i64>(op, t, a, c),
            Scalar::U64 => combine::<u64>(op, t, a, c),
            Scalar::I128 => combine::<i128>(op, t, a, c),
            Scalar::U128 => combine::<u128>(op, t, a, c),
            Scalar::F32 => combine::<f32>(op, t, a, c),
            Scalar::F64 => combine::<f64>(op, t, a, c),
            Scalar::ComplexF32 => combine::<Complex<f32>>(op, t, a, c),
            Scalar::ComplexF64 => combine::<Complex<f64>>(op, t, a, c),
            Scalar::Opaque16 => combine::<[u8; 16]>(op, t, a, c),
            Scalar::Opaque32 => combine::<[u8; 32]>(op, t, a, c),
        }
    }
}

/// An atomic operation on a row of elements, as it came: operands, then comparands if it has them.
pub(crate) struct Change<'a> {
    pub(crate) op: AtomicOp,
    pub(crate) scalar: Scalar,
    pub(crate) count: usize,
    /// As many as there are elements; empty for [`AtomicOp::Read`].
    pub(crate) operands: &'a [u8],
    /// As many as there are elements, or empty.
    pub(crate) comparands: &'a [u8],
}

impl Change<'_> {
    /// Bytes of the elements.
    pub(crate) fn len(&self) -> usize {
        self.count * self.scalar.size()
    }

    /// Changes the elements in `buf`, which has [`Change::len`] bytes, and appends what was there
    /// before to `former`. `false`: there is no such operation; nothing was changed.
    pub(crate) fn apply(&self, buf: &Buf, former: &mut Vec<u8>) -> bool {
        if !self.op.takes(self.scalar) {
            return false;
        }
        let size = self.scalar.size();
        let zero = [0; SIZE_MAX];
        let element = |row: &[u8], at: usize| {
            let mut own = zero;
            if let Some(bytes) = row.get(at..at + size) {
                own[..size].copy_from_slice(bytes);
            }
            own
        };
        for at in (0..self.len()).step_by(size) {
            let mut before = zero;
            buf.read(at, &mut before[..size]);
            former.extend_from_slice(&before[..size]);
            let (a, c) = (element(self.operands, at), element(self.comparands, at));
            if let Some(after) = self.scalar.change(self.op, &before, &a, &c)
                && self.op != AtomicOp::Read
            {
                buf.write(at, &after[..size]);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one<T: Number + PartialEq + std::fmt::Debug>(
        scalar: Scalar,
        op: AtomicOp,
        t: T,
        a: T,
        c: T,
    ) -> Option<T> {
        let mut rows = [[0; SIZE_MAX]; 3];
        for (row, value) in rows.iter_mut().zip([t, a, c]) {
            value.write(row);
        }
        scalar.change(op, &rows[0], &rows[1], &rows[2]).map(|bytes| T::read(&bytes))
    }

    #[test]
    fn each_operation_does_what_its_description_says() {
        let i = |op, t, a, c| one::<i32>(Scalar::I32, op, t, a, c);
        assert_eq!(i(AtomicOp::Min, 3, -4, 0), Some(-4));
        assert_eq!(i(AtomicOp::Max, 3, -4, 0), Some(3));
        assert_eq!(i(AtomicOp::Sum, i32::MAX, 1, 0), Some(i32::MIN));
        assert_eq!(i(AtomicOp::Product, -3, 5, 0), Some(-15));
        assert_eq!(i(AtomicOp::Difference, 3, 5, 0), Some(-2));
        assert_eq!(i(AtomicOp::LogicalAnd, 3, 0, 0), Some(0));
        assert_eq!(i(AtomicOp::LogicalOr, 3, 0, 0), Some(1));
        assert_eq!(i(AtomicOp::LogicalXor, 3, 4, 0), Some(0));
        assert_eq!(i(AtomicOp::BitXor, 0b110, 0b011, 0), Some(0b101));
        assert_eq!(i(AtomicOp::Write, 1, 2, 0), Some(2));
        assert_eq!(i(AtomicOp::Read, 1, 2, 0), Some(1));
        assert_eq!(i(AtomicOp::SwapMasked, 0b1111, 0b0000, 0b0101), Some(0b1010));
        // With operand 9, target 5 and comparand 4: which of the swaps take place.
        let swaps = |c| {
            [
                AtomicOp::SwapIfEqual,
                AtomicOp::SwapIfNotEqual,
                AtomicOp::SwapIfLessOrEqual,
                AtomicOp::SwapIfLess,
                AtomicOp::SwapIfGreaterOrEqual,
                AtomicOp::SwapIfGreater,
            ]
            .map(|op| i(op, 5, 9, c) == Some(9))
        };
        assert_eq!(swaps(4), [false, true, true, true, false, false]);
        assert_eq!(swaps(5), [true, false, true, false, true, false]);
        assert_eq!(swaps(6), [false, true, false, false, true, true]);
    }

    #[test]
    fn types_refuse_what_makes_no_sense_for_them() {
        let count = |scalar| AtomicOp::ALL.iter().filter(|op| op.takes(scalar)).count();
        assert_eq!(count(Scalar::U8), 20);
        assert_eq!(count(Scalar::F64), 16);
        assert_eq!(count(Scalar::ComplexF32), 10);
        assert_eq!(count(Scalar::Opaque16), 2);
        let (t, a, c) = (Complex(1.0, 2.0), Complex(3.0, 4.0), Complex(0.0, 0.0));
        let product = one(Scalar::ComplexF64, AtomicOp::Product, t, a, c);
        assert_eq!(product, Some(Complex(-5.0, 10.0)));
    }

    #[test]
    fn numbers_on_the_wire_are_places_in_the_lists() {
        for (code, op) in AtomicOp::ALL.iter().enumerate() {
            assert_eq!(*op as usize, code);
        }
        for (code, scalar) in Scalar::ALL.iter().enumerate() {
            assert_eq!(*scalar as usize, code);
            assert!(scalar.size() <= SIZE_MAX);
        }
    }

    #[test]
    fn a_row_is_changed_and_its_former_values_are_given() {
        let bytes: Vec<u8> = [1u16, 2, 3].iter().flat_map(|v| v.to_ne_bytes()).collect();
        let operands: Vec<u8> = [10u16, 20, 30].iter().flat_map(|v| v.to_ne_bytes()).collect();
        let buf = Buf::from_vec(bytes.clone());
        let change = Change {
            op: AtomicOp::Sum,
            scalar: Scalar::U16,
            count: 3,
            operands: &operands,
            comparands: &[],
        };
        let mut former = Vec::new();
        assert!(change.apply(&buf, &mut former));
        assert_eq!(former, bytes);
        let sums: Vec<u8> = [11u16, 22, 33].iter().flat_map(|v| v.to_ne_bytes()).collect();
        assert_eq!(buf.into_vec(), Some(sums));
    }
}
