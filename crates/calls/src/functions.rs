//! The functions of MPI that are counted, under the names by which C finds them: all that
//! communicate or wait. What only asks, builds datatypes or keeps attributes costs little, and is
//! not here. Nor is what takes counts of any size (`MPI_Send_c`): Open MPI has none of these, and
//! programs that look for them at run time (mpi4py, by weak symbols) must find none: one file
//! cannot have them for some libraries and not for others.

use std::ffi::{c_int, c_void};

use crate::count::Call;
use crate::next::Next;

/// A function of MPI. Only its name is known: it is handed so many machine words as came, `$word`.
/// Where it takes fewer, the others are whatever lies in registers and further up on the stack, and
/// nobody looks at them.
macro_rules! function {
    ($name:ident, $($word:ident)*) => {
        /// Counts the call, and goes on to the next function of this name.
        ///
        /// # Safety
        /// As MPI demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($word: usize),*) -> c_int {
            static NEXT: Next = Next::new();
            let next = NEXT.get(stringify!($name));
            // SAFETY: it is the function of that name, whose arguments are machine words or
            // narrower, and no more than here. Where the caller has put them it finds them: by the
            // conventions of x86-64 and aarch64 it is the caller who takes them off the stack.
            let next = unsafe {
                std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C-unwind" fn($($word: usize),*) -> c_int,
                >(next)
            };
            let _call = Call::begins(Number::$name as usize);
            // SAFETY: the caller's promise; all that it may have given is handed on.
            unsafe { next($($word),*) }
        }
    };
}

macro_rules! functions {
    (few: $($few:ident)*; many: $($many:ident)*;) => {
        /// Their numbers.
        #[allow(non_camel_case_types, reason = "they are MPI's names")]
        enum Number {
            $($few,)*
            $($many),*
        }

        /// Their names, by number.
        pub const NAMES: [&str; [$(Number::$few as usize,)* $(Number::$many as usize),*].len()] =
            [$(stringify!($few),)* $(stringify!($many)),*];

        $(function! { $few, a b c d e f g h })*
        $(function! { $many, a b c d e f g h i j k l m })*
    };
}

// Few arguments are up to 8, many up to 13. A test compares that with the headers of the libraries.
functions! {
    few:
    // Messages between two ranks.
    MPI_Send MPI_Bsend MPI_Ssend MPI_Rsend MPI_Isend MPI_Ibsend MPI_Issend MPI_Irsend MPI_Recv
    MPI_Irecv MPI_Mrecv MPI_Imrecv MPI_Probe MPI_Iprobe MPI_Mprobe MPI_Improbe
    // Waits.
    MPI_Wait MPI_Waitany MPI_Waitall MPI_Waitsome MPI_Test MPI_Testany MPI_Testall MPI_Testsome
    MPI_Request_get_status MPI_Request_free MPI_Cancel MPI_Buffer_detach
    // Persistent and partitioned messages.
    MPI_Send_init MPI_Bsend_init MPI_Ssend_init MPI_Rsend_init MPI_Recv_init MPI_Start
    MPI_Startall MPI_Pready MPI_Pready_range MPI_Pready_list MPI_Parrived
    // Collective operations.
    MPI_Barrier MPI_Bcast MPI_Gather MPI_Scatter MPI_Allgather MPI_Allgatherv MPI_Alltoall
    MPI_Reduce MPI_Allreduce MPI_Reduce_scatter MPI_Reduce_scatter_block MPI_Scan MPI_Exscan
    MPI_Neighbor_allgather MPI_Neighbor_allgatherv MPI_Neighbor_alltoall
    // The same without waiting.
    MPI_Ibarrier MPI_Ibcast MPI_Iallgather MPI_Ialltoall MPI_Ireduce MPI_Iallreduce
    MPI_Ireduce_scatter MPI_Ireduce_scatter_block MPI_Iscan MPI_Iexscan MPI_Ineighbor_allgather
    MPI_Ineighbor_alltoall
    // The same, persistent.
    MPI_Barrier_init MPI_Bcast_init MPI_Allreduce_init MPI_Reduce_scatter_init
    MPI_Reduce_scatter_block_init MPI_Scan_init MPI_Exscan_init
    // One-sided operations.
    MPI_Put MPI_Get MPI_Fetch_and_op MPI_Compare_and_swap
    // Windows.
    MPI_Win_create MPI_Win_allocate MPI_Win_allocate_shared MPI_Win_create_dynamic
    MPI_Win_attach MPI_Win_detach MPI_Win_free MPI_Win_fence MPI_Win_start MPI_Win_complete
    MPI_Win_post MPI_Win_wait MPI_Win_test MPI_Win_lock MPI_Win_lock_all MPI_Win_unlock
    MPI_Win_unlock_all MPI_Win_flush MPI_Win_flush_all MPI_Win_flush_local
    MPI_Win_flush_local_all MPI_Win_sync
    // Communicators.
    MPI_Comm_dup MPI_Comm_dup_with_info MPI_Comm_idup MPI_Comm_idup_with_info MPI_Comm_create
    MPI_Comm_create_group MPI_Comm_create_from_group MPI_Comm_split MPI_Comm_split_type
    MPI_Comm_free MPI_Comm_disconnect MPI_Comm_accept MPI_Comm_connect MPI_Comm_join
    MPI_Comm_spawn MPI_Intercomm_create MPI_Intercomm_create_from_groups MPI_Intercomm_merge
    MPI_Cart_create MPI_Cart_sub MPI_Graph_create
    // Files.
    MPI_File_open MPI_File_close MPI_File_delete MPI_File_set_size MPI_File_preallocate
    MPI_File_set_view MPI_File_sync MPI_File_read_at MPI_File_write_at MPI_File_read_at_all
    MPI_File_write_at_all MPI_File_iread_at MPI_File_iwrite_at MPI_File_iread_at_all
    MPI_File_iwrite_at_all MPI_File_read MPI_File_write MPI_File_read_all MPI_File_write_all
    MPI_File_iread MPI_File_iwrite MPI_File_iread_all MPI_File_iwrite_all MPI_File_read_shared
    MPI_File_write_shared MPI_File_iread_shared MPI_File_iwrite_shared MPI_File_read_ordered
    MPI_File_write_ordered MPI_File_read_at_all_begin MPI_File_read_at_all_end
    MPI_File_write_at_all_begin MPI_File_write_at_all_end MPI_File_read_all_begin
    MPI_File_read_all_end MPI_File_write_all_begin MPI_File_write_all_end
    MPI_File_read_ordered_begin MPI_File_read_ordered_end MPI_File_write_ordered_begin
    MPI_File_write_ordered_end MPI_File_seek_shared
    // Begin and end.
    MPI_Init MPI_Init_thread MPI_Session_init MPI_Session_finalize MPI_Finalize;
    many:
    MPI_Sendrecv MPI_Sendrecv_replace MPI_Isendrecv MPI_Isendrecv_replace MPI_Psend_init
    MPI_Precv_init MPI_Gatherv MPI_Scatterv MPI_Alltoallv MPI_Alltoallw MPI_Neighbor_alltoallv
    MPI_Neighbor_alltoallw MPI_Igather MPI_Igatherv MPI_Iscatter MPI_Iscatterv MPI_Iallgatherv
    MPI_Ialltoallv MPI_Ialltoallw MPI_Ineighbor_allgatherv MPI_Ineighbor_alltoallv
    MPI_Ineighbor_alltoallw MPI_Gather_init MPI_Gatherv_init MPI_Scatter_init MPI_Scatterv_init
    MPI_Allgather_init MPI_Allgatherv_init MPI_Alltoall_init MPI_Alltoallv_init
    MPI_Alltoallw_init MPI_Reduce_init MPI_Neighbor_allgather_init MPI_Neighbor_allgatherv_init
    MPI_Neighbor_alltoall_init MPI_Neighbor_alltoallv_init MPI_Neighbor_alltoallw_init
    MPI_Accumulate MPI_Get_accumulate MPI_Rput MPI_Rget MPI_Raccumulate MPI_Rget_accumulate
    MPI_Comm_spawn_multiple MPI_Dist_graph_create MPI_Dist_graph_create_adjacent;
}

/// How many they are.
pub const FUNCTIONS: usize = NAMES.len();

/// The number of the function after which there are no more calls.
pub const FINALIZE: usize = Number::MPI_Finalize as usize;

#[cfg(test)]
mod tests {
    use super::*;
    use weft_device::page::calls::NAME_WORDS;

    #[test]
    fn names_are_mpis_and_find_room_in_a_page() {
        for name in NAMES {
            assert!(name.starts_with("MPI_") && name.len() <= NAME_WORDS * 8, "{name}");
        }
        assert_eq!(NAMES[FINALIZE], "MPI_Finalize");
    }
}
