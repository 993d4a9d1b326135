! Collective operations by the interfaces of Fortran: every value is known beforehand. Meant for
! `weft mpirun --collectives`, but right under any MPI.
!
!   fortran [--weft N]
!
! --weft N: fails unless Weft has done each barrier, and N operations or more in each process.

module common_to_all
    use, intrinsic :: iso_c_binding, only: c_int, c_int64_t
    use, intrinsic :: iso_fortran_env, only: error_unit, int8, int64
    implicit none
    integer :: me, ranks
    logical :: by_weft = .false.

    interface
        ! See fortran.c.
        function weft_done() bind(c)
            import :: c_int64_t
            integer(c_int64_t) :: weft_done
        end function
        subroutine give_up() bind(c)
        end subroutine
        subroutine barrier_in_c(comm) bind(c)
            import :: c_int
            integer(c_int), intent(in) :: comm
        end subroutine
        subroutine bcast_in_c(values, count, root, comm) bind(c)
            import :: c_int
            integer(c_int), intent(inout) :: values(*)
            integer(c_int), intent(in) :: count, root, comm
        end subroutine
        subroutine sum_in_c(values, count, comm) bind(c)
            import :: c_int
            integer(c_int), intent(inout) :: values(*)
            integer(c_int), intent(in) :: count, comm
        end subroutine
    end interface
contains
    subroutine want(good, what)
        logical, intent(in) :: good
        character(*), intent(in) :: what

        if (good) return
        write (error_unit, '(a,i0,2a)') 'fortran: rank ', me, ': ', what
        call give_up()
    end subroutine

    ! All ranks of this program share a clock.
    function now()
        double precision :: now
        integer(int64) :: ticks, rate

        call system_clock(ticks, rate)
        now = dble(ticks) / dble(rate)
    end function

    ! 1, 2 and so on.
    function upto(count)
        integer, intent(in) :: count
        integer :: upto(count), i

        upto = [(i, i = 1, count)]
    end function

    elemental function pattern(what, at)
        integer, intent(in) :: what, at
        integer(int8) :: pattern

        pattern = int(mod(what * 31 + at * 7 + at / 253, 127), int8)
    end function
end module

! The same tests by both modules: of one the handles are whole numbers, of the other structures.
module by_mpi
    use mpi
    use common_to_all
    implicit none
#define COMM integer
#define DATATYPE integer
contains
#include "fortran.inc"
end module

#undef COMM
#undef DATATYPE
module by_mpi_f08
    use mpi_f08
    use common_to_all
    implicit none
#define COMM type(MPI_Comm)
#define DATATYPE type(MPI_Datatype)
contains
#include "fortran.inc"

    ! Here nobody need ask whether it went well.
    subroutine without_error()
        integer :: values(200), sums(5)

        values = merge(upto(200), 0, me == 0)
        call MPI_Barrier(MPI_COMM_WORLD)
        call MPI_Bcast(values, 200, MPI_INTEGER, 0, MPI_COMM_WORLD)
        call want(all(values == upto(200)), 'a broadcast without an error is wrong')
        call MPI_Allreduce(values, sums, 5, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
        call want(all(sums == ranks * values(:5)), 'a sum without an error is wrong')
    end subroutine

    ! For by_all, which has the other module.
    subroutine barrier_f08()
        call MPI_Barrier(MPI_COMM_WORLD)
    end subroutine
    subroutine bcast_f08(values)
        integer, intent(inout) :: values(300)

        call MPI_Bcast(values, 300, MPI_INTEGER, 0, MPI_COMM_WORLD)
    end subroutine
    subroutine sum_f08(values)
        integer, intent(inout) :: values(10)

        call MPI_Allreduce(MPI_IN_PLACE, values, 10, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    end subroutine
end module

! The oldest interface: no module, no types.
subroutine by_mpif_h()
    use common_to_all
    implicit none
    include 'mpif.h'
    integer :: values(300), error, i

    do i = 0, ranks - 1
        values = merge(i + 7, -1, me == i)
        call MPI_BARRIER(MPI_COMM_WORLD, error)
        call want(error == MPI_SUCCESS, 'a barrier by mpif.h failed')
        call MPI_BCAST(values, 300, MPI_INTEGER, i, MPI_COMM_WORLD, error)
        call want(error == MPI_SUCCESS .and. all(values == i + 7), 'by mpif.h came others')
    end do
end subroutine

! Each rank calls the same operation by another way, and all must meet.
subroutine by_all()
    use mpi
    use by_mpi_f08, only: barrier_f08, bcast_f08, sum_f08
    use common_to_all
    implicit none
    integer :: values(300), error, way, i

    do i = 0, 11
        way = mod(me + i / 4, 3)
        values = merge(i + 5, -1, me == 0)
        if (way == 0) call MPI_Barrier(MPI_COMM_WORLD, error)
        if (way == 1) call barrier_f08()
        if (way == 2) call barrier_in_c(MPI_COMM_WORLD)
        if (way == 0) call MPI_Bcast(values, 300, MPI_INTEGER, 0, MPI_COMM_WORLD, error)
        if (way == 1) call bcast_f08(values)
        if (way == 2) call bcast_in_c(values, 300, 0, MPI_COMM_WORLD)
        call want(all(values == i + 5), 'by different ways came others')
        if (way == 0) call MPI_Allreduce(MPI_IN_PLACE, values, 10, MPI_INTEGER, MPI_SUM, &
            MPI_COMM_WORLD, error)
        if (way == 1) call sum_f08(values(:10))
        if (way == 2) call sum_in_c(values, 10, MPI_COMM_WORLD)
        call want(all(values(:10) == ranks * (i + 5)), 'by different ways a sum is wrong')
    end do
end subroutine

program fortran
    use mpi
    use common_to_all
    use by_mpi, only: test_mpi => test
    use by_mpi_f08, only: test_mpi_f08 => test, without_error
    implicit none
    character(20) :: word
    integer :: error
    integer(int64) :: least = 0

    call get_command_argument(1, word)
    if (word == '--weft') then
        by_weft = .true.
        call get_command_argument(2, word)
        read (word, *) least
    end if
    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, me, error)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
    call test_mpi()
    call test_mpi_f08()
    call without_error()
    call by_mpif_h()
    call by_all()
    call want(weft_done() >= least, 'Weft has not done enough')
    call MPI_Finalize(error)
    if (me == 0) print '(a)', 'fortran: good'
end program
