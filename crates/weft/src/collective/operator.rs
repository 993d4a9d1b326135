//! What a reduction does with two elements.

use std::fmt;
use std::sync::Arc;

use weft_sys::plain::Plain;

use crate::error::Error;
use crate::remote::{AtomicOp, Scalar, fold, reduces};

/// A number that rows of can be reduced and exchanged.
pub trait Element: Plain {
    /// Its type's name among the atomics.
    const SCALAR: Scalar;
}

macro_rules! elements {
    ($($number:ty: $scalar:ident),*) => {$(
        impl Element for $number {
            const SCALAR: Scalar = Scalar::$scalar;
        }
    )*};
}
elements!(
    i8: I8, u8: U8, i16: I16, u16: U16, i32: I32, u32: U32, i64: I64, u64: U64, i128: I128,
    u128: U128, f32: F32, f64: F64
);

/// Combines rows: `left` becomes `left` with `right`, element by element.
type Function = dyn Fn(&mut [u8], &[u8]) + Send + Sync;

/// What a reduction does with two elements. It must not matter how operands are bracketed, as for a
/// sum; for floating-point numbers, where it does, the brackets are the same in every run with as
/// many ranks and elements.
#[derive(Clone)]
pub struct Operator(How);

#[derive(Clone)]
enum How {
    Known { op: AtomicOp, scalar: Scalar },
    User { unit: usize, commutes: bool, function: Arc<Function> },
}

impl Operator {
    /// One of the operations that windows know as well: sum, product, minimum, maximum, and the
    /// logical and bitwise ones.
    ///
    /// # Errors
    /// [`Error::Collective`] for an operation that cannot reduce elements of this type.
    pub fn new(op: AtomicOp, scalar: Scalar) -> Result<Operator, Error> {
        match reduces(op, scalar) {
            true => Ok(Operator(How::Known { op, scalar })),
            false => Err(Error::collective(format!(
                "{op:?} cannot reduce elements of type {scalar:?}: use a sum, product, minimum, \
                 maximum, or for whole numbers a bitwise or logical operation"
            ))),
        }
    }

    /// A function of two rows of elements of `unit` bytes each, which have the same length: it sets
    /// each element of the first to itself combined with that of the second, in this order. If the
    /// order of operands does not matter, `commutes`: then there are faster ways for long rows.
    ///
    /// It is called with the endpoint locked, perhaps by another thread: it must neither use the
    /// endpoint nor panic, and all ranks must give functions that do the same.
    ///
    /// # Errors
    /// [`Error::Collective`] if `unit` is 0.
    pub fn user(
        unit: usize,
        commutes: bool,
        function: impl Fn(&mut [u8], &[u8]) + Send + Sync + 'static,
    ) -> Result<Operator, Error> {
        if unit == 0 {
            return Err(Error::collective("an element of 0 bytes cannot be reduced"));
        }
        Ok(Operator(How::User { unit, commutes, function: Arc::new(function) }))
    }

    /// Bytes of an element.
    pub fn unit(&self) -> usize {
        match self.0 {
            How::Known { scalar, .. } => scalar.size(),
            How::User { unit, .. } => unit,
        }
    }

    /// Whether the order of operands does not matter.
    pub fn commutes(&self) -> bool {
        match self.0 {
            How::Known { .. } => true,
            How::User { commutes, .. } => commutes,
        }
    }

    /// A number that differs for operators that differ; 0 for a user's.
    pub(crate) fn code(&self) -> u64 {
        match self.0 {
            How::Known { op, scalar } => 1 + op as u64 + ((scalar as u64) << 8),
            How::User { .. } => 0,
        }
    }

    /// `left` becomes `left` with `right`.
    pub(crate) fn apply(&self, left: &mut [u8], right: &[u8]) {
        match &self.0 {
            How::Known { op, scalar } => fold(*op, *scalar, left, right),
            How::User { function, .. } => function(left, right),
        }
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            How::Known { op, scalar } => write!(f, "Operator({op:?} of {scalar:?})"),
            How::User { unit, .. } => write!(f, "Operator(a function of {unit} bytes)"),
        }
    }
}
