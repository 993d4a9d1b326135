//! Names and numbers of predefined datatypes and operators.

use std::ffi::CStr;

use crate::library::Handle;
use crate::table::{op, scalar};

/// The whole numbers with so many bytes, with its sign or without.
const fn whole(bytes: usize, signed: bool) -> u32 {
    let unsigned = match bytes {
        1 => scalar::U8,
        2 => scalar::U16,
        4 => scalar::U32,
        _ => scalar::U64,
    };
    if signed { unsigned - 1 } else { unsigned }
}

const LONG: usize = size_of::<libc::c_long>();

/// Datatypes of MPICH's binary interface that can be reduced.
pub const MPICH_SCALARS: &[(Handle, u32)] = &[
    (0x4c00_0118, scalar::I8),
    (0x4c00_0102, scalar::U8),
    (0x4c00_0203, scalar::I16),
    (0x4c00_0204, scalar::U16),
    (0x4c00_0405, scalar::I32),
    (0x4c00_0406, scalar::U32),
    (0x4c00_0807, scalar::I64),
    (0x4c00_0808, scalar::U64),
    (0x4c00_0809, scalar::I64),
    (0x4c00_0819, scalar::U64),
    (0x4c00_040a, scalar::F32),
    (0x4c00_080b, scalar::F64),
    (0x4c00_0137, scalar::I8),
    (0x4c00_0238, scalar::I16),
    (0x4c00_0439, scalar::I32),
    (0x4c00_083a, scalar::I64),
    (0x4c00_013b, scalar::U8),
    (0x4c00_023c, scalar::U16),
    (0x4c00_043d, scalar::U32),
    (0x4c00_083e, scalar::U64),
    (0x4c00_041b, scalar::I32),
    (0x4c00_041c, scalar::F32),
    (0x4c00_081f, scalar::F64),
    (0x4c00_0843, scalar::I64),
    (0x4c00_0844, scalar::I64),
    (0x4c00_0845, scalar::I64),
    (0x4c00_012d, scalar::I8),
    (0x4c00_022f, scalar::I16),
    (0x4c00_0430, scalar::I32),
    (0x4c00_0831, scalar::I64),
    (0x4c00_0427, scalar::F32),
    (0x4c00_0829, scalar::F64),
];

/// Its operators.
pub const MPICH_OPS: &[(Handle, u32)] = &[
    (0x5800_0001, op::MAX),
    (0x5800_0002, op::MIN),
    (0x5800_0003, op::SUM),
    (0x5800_0004, op::PRODUCT),
    (0x5800_0005, op::LOGICAL_AND),
    (0x5800_0006, op::BIT_AND),
    (0x5800_0007, op::LOGICAL_OR),
    (0x5800_0008, op::BIT_OR),
    (0x5800_0009, op::LOGICAL_XOR),
    (0x5800_000a, op::BIT_XOR),
];

/// Open MPI's datatypes without gaps by their symbols, their bytes, and what they are in
/// reductions.
pub const OPEN_MPI_PLAIN: &[(&CStr, usize, Option<u32>)] = &[
    (c"ompi_mpi_byte", 1, None),
    (c"ompi_mpi_char", 1, None),
    (c"ompi_mpi_signed_char", 1, Some(scalar::I8)),
    (c"ompi_mpi_unsigned_char", 1, Some(scalar::U8)),
    (c"ompi_mpi_short", 2, Some(scalar::I16)),
    (c"ompi_mpi_unsigned_short", 2, Some(scalar::U16)),
    (c"ompi_mpi_int", 4, Some(scalar::I32)),
    (c"ompi_mpi_unsigned", 4, Some(scalar::U32)),
    (c"ompi_mpi_long", LONG, Some(whole(LONG, true))),
    (c"ompi_mpi_unsigned_long", LONG, Some(whole(LONG, false))),
    (c"ompi_mpi_long_long_int", 8, Some(scalar::I64)),
    (c"ompi_mpi_unsigned_long_long", 8, Some(scalar::U64)),
    (c"ompi_mpi_float", 4, Some(scalar::F32)),
    (c"ompi_mpi_double", 8, Some(scalar::F64)),
    (c"ompi_mpi_int8_t", 1, Some(scalar::I8)),
    (c"ompi_mpi_uint8_t", 1, Some(scalar::U8)),
    (c"ompi_mpi_int16_t", 2, Some(scalar::I16)),
    (c"ompi_mpi_uint16_t", 2, Some(scalar::U16)),
    (c"ompi_mpi_int32_t", 4, Some(scalar::I32)),
    (c"ompi_mpi_uint32_t", 4, Some(scalar::U32)),
    (c"ompi_mpi_int64_t", 8, Some(scalar::I64)),
    (c"ompi_mpi_uint64_t", 8, Some(scalar::U64)),
    (c"ompi_mpi_c_float_complex", 8, None),
    (c"ompi_mpi_c_double_complex", 16, None),
    (c"ompi_mpi_cxx_cplex", 8, None),
    (c"ompi_mpi_cxx_dblcplex", 16, None),
];

/// What a datatype of Fortran is.
#[derive(Clone, Copy)]
pub enum Kind {
    Whole,
    Real,
    /// Nothing that is reduced: what is true is another number with each compiler.
    Other,
}

impl Kind {
    /// What it is in reductions.
    pub fn scalar(self, bytes: usize) -> Option<u32> {
        match (self, bytes) {
            (Kind::Whole, 1 | 2 | 4 | 8) => Some(whole(bytes, true)),
            (Kind::Real, 4) => Some(scalar::F32),
            (Kind::Real, 8) => Some(scalar::F64),
            _ => None,
        }
    }
}

/// Open MPI's datatypes for Fortran by their symbols. How long they are is the choice of whoever
/// has built it: its `INTEGER` may have 8 bytes, and what the compiler does not have has none.
pub const OPEN_MPI_FORTRAN: [(&CStr, Kind); 22] = [
    (c"ompi_mpi_integer", Kind::Whole),
    (c"ompi_mpi_integer1", Kind::Whole),
    (c"ompi_mpi_integer2", Kind::Whole),
    (c"ompi_mpi_integer4", Kind::Whole),
    (c"ompi_mpi_integer8", Kind::Whole),
    (c"ompi_mpi_integer16", Kind::Whole),
    (c"ompi_mpi_real", Kind::Real),
    (c"ompi_mpi_dblprec", Kind::Real),
    (c"ompi_mpi_real4", Kind::Real),
    (c"ompi_mpi_real8", Kind::Real),
    (c"ompi_mpi_real16", Kind::Real),
    (c"ompi_mpi_cplex", Kind::Other),
    (c"ompi_mpi_dblcplex", Kind::Other),
    (c"ompi_mpi_complex8", Kind::Other),
    (c"ompi_mpi_complex16", Kind::Other),
    (c"ompi_mpi_complex32", Kind::Other),
    (c"ompi_mpi_character", Kind::Other),
    (c"ompi_mpi_logical", Kind::Other),
    (c"ompi_mpi_logical1", Kind::Other),
    (c"ompi_mpi_logical2", Kind::Other),
    (c"ompi_mpi_logical4", Kind::Other),
    (c"ompi_mpi_logical8", Kind::Other),
];

/// Its operators by their symbols.
pub const OPEN_MPI_OPS: [(&CStr, u32); 10] = [
    (c"ompi_mpi_op_max", op::MAX),
    (c"ompi_mpi_op_min", op::MIN),
    (c"ompi_mpi_op_sum", op::SUM),
    (c"ompi_mpi_op_prod", op::PRODUCT),
    (c"ompi_mpi_op_land", op::LOGICAL_AND),
    (c"ompi_mpi_op_band", op::BIT_AND),
    (c"ompi_mpi_op_lor", op::LOGICAL_OR),
    (c"ompi_mpi_op_bor", op::BIT_OR),
    (c"ompi_mpi_op_lxor", op::LOGICAL_XOR),
    (c"ompi_mpi_op_bxor", op::BIT_XOR),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fortran_has_is_reduced_as_long_as_it_is() {
        assert_eq!(Kind::Whole.scalar(4), Some(scalar::I32));
        assert_eq!(Kind::Whole.scalar(8), Some(scalar::I64));
        assert_eq!(Kind::Real.scalar(8), Some(scalar::F64));
        assert_eq!([Kind::Whole.scalar(16), Kind::Real.scalar(2)], [None; 2]);
        assert_eq!(Kind::Other.scalar(4), None);
    }
}
