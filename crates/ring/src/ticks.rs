//! A counter that goes evenly.

/// A counter that goes evenly and costs next to nothing to read (some 10 ns); how fast it goes is
/// for the caller to find out. Where there is none it stands still.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    // SAFETY: every x86-64 processor has this instruction.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(all(target_arch = "aarch64", not(loom)))]
    {
        let now;
        // SAFETY: reads a register that Linux lets every process read; touches no memory.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) now, options(nomem, nostack)) };
        return now;
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(loom))))]
    0
}
