//! Hints to the system and the processor about memory that will be needed.
#![cfg_attr(
    all(any(target_os = "linux", target_arch = "x86_64"), not(miri)),
    expect(
        unsafe_code,
        reason = "a system call and an instruction that take an address"
    )
)]

/// The minimum size, in bytes, for which large pages are requested: two large pages of 2 MiB.
const MIN_BYTES: usize = 4 << 20;

/// Requests large pages for a list that is about to be filled, if it is a long one. The system may
/// ignore that, and where there is no such call, nothing happens.
///
/// A list of millions of records in small pages costs a TLB miss every 64 records, and stops the
/// hardware prefetcher there: a chain of tasks took 14 ns per task instead of 9.
pub(crate) fn prefer_large<T>(list: &Vec<T>) {
    let bytes = list.capacity() * size_of::<T>();
    if bytes >= MIN_BYTES {
        advise(list.as_ptr().cast(), bytes);
    }
}

/// Frees the unused capacity of a list. A long one moves, to memory for which large pages were
/// requested.
pub(crate) fn shrink<T>(list: &mut Vec<T>) {
    if list.capacity() * size_of::<T>() < MIN_BYTES {
        list.shrink_to_fit();
    } else if list.len() < list.capacity() {
        let mut small = Vec::with_capacity(list.len());
        prefer_large(&small);
        small.append(list);
        *list = small;
    }
}

/// Prefetches the cache line at `place`.
#[inline(always)]
pub(crate) fn fetch<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint about any address, valid or not; every x86-64 processor has the
        // instruction.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

/// Prefetches the cache line at `place` for writing. A line that another core has written is
/// fetched in exclusive state; after [`fetch`] the first write would have to request that
/// separately.
#[inline(always)]
pub(crate) fn fetch_to_write<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint about any address, valid or not. A processor without it executes it as a
    // no-op.
    unsafe {
        std::arch::asm!(
            "prefetchw [{place}]",
            place = in(reg) place,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = place;
}

#[cfg(all(target_os = "linux", not(miri)))]
fn advise(start: *const u8, bytes: usize) {
    /// The small pages of all systems that have large ones divide this, or else the call fails.
    const SMALL: usize = 4096;
    let offset = start.align_offset(SMALL);
    if offset < bytes {
        // SAFETY: the range is inside one allocation. The advice does not change its contents,
        // and is harmless when the memory is freed and reused.
        let whole = unsafe { start.add(offset) };
        // SAFETY: the range is inside one allocation, and the advice does not change its
        // contents.
        let _ =
            unsafe { libc::madvise(whole.cast_mut().cast(), bytes - offset, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn advise(_start: *const u8, _bytes: usize) {}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_keeps_its_contents() {
        const LEN: u64 = if cfg!(miri) { 1 << 10 } else { 1 << 20 };
        let mut list = Vec::<u64>::with_capacity(LEN as usize);
        prefer_large(&list);
        list.extend(0..LEN);
        list.reserve(1);
        prefer_large(&list);
        shrink(&mut list);
        assert_eq!(list.capacity(), LEN as usize);
        assert!(list.iter().copied().eq(0..LEN));
    }
}
