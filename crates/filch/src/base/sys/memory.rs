//! Hints to the system and the processor about memory that will be needed, or will not.
#![expect(
    unsafe_code,
    reason = "system calls and an instruction that take an address"
)]

use std::ptr::NonNull;

/// The minimum size, in bytes, for which large pages are requested: two large pages of 2 MiB.
const MIN_BYTES: usize = 4 << 20;

/// The minimum size, in bytes, of a list whose memory is given back to the system. Less is soon
/// used again, and each page that the system provides anew costs as much as some tasks.
const MIN_FREED_BYTES: usize = 2 << 20;

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

/// Drops a list, and gives its memory back to the system if it is a long one.
pub(crate) fn free<T: Copy>(list: Vec<T>) {
    if list.capacity() * size_of::<T>() >= MIN_FREED_BYTES {
        clear(list);
    }
}

/// Drops a long list, and gives its memory back to the system. An allocator may keep it otherwise.
pub(crate) fn clear<T: Copy>(mut list: Vec<T>) {
    list.clear();
    let bytes = list.capacity() * size_of::<T>();
    if let Some(start) = NonNull::new(list.as_mut_ptr()) {
        // SAFETY: the list has this capacity, and is empty.
        unsafe { discard(start.cast(), bytes) };
    }
}

/// Gives the pages that are completely inside of `bytes` from `start` on back to the system. They
/// are provided again, with other contents, when they are accessed.
///
/// # Safety
/// The range is inside one allocation, whose owner does not need the contents any more.
pub(crate) unsafe fn discard(start: NonNull<u8>, bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        // SAFETY: the call reads a constant of the system, and no memory of ours.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = usize::try_from(page).unwrap_or(0);
        if !page.is_power_of_two() {
            return;
        }
        let offset = start.align_offset(page);
        let whole = bytes.saturating_sub(offset) & !(page - 1);
        if whole > 0 {
            // SAFETY: `offset` is less than `bytes`, so it is inside the allocation.
            let first = unsafe { start.add(offset) };
            // SAFETY: the pages are inside the range, and the caller does not need their contents.
            // If the system refuses, they stay.
            let _ = unsafe { libc::madvise(first.as_ptr().cast(), whole, libc::MADV_DONTNEED) };
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (start, bytes);
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
    fn memory_around_what_is_discarded_keeps_its_contents() {
        const PAGES: usize = 1 << 16;
        let mut bytes = vec![1_u8; 3 * PAGES];
        let middle = NonNull::from(&mut bytes[PAGES - 1]);
        // SAFETY: the range is inside of `bytes`, and is not read after this.
        unsafe { discard(middle, PAGES + 2) };
        assert!(bytes[..PAGES - 1].iter().all(|byte| *byte == 1));
        assert!(bytes[2 * PAGES + 1..].iter().all(|byte| *byte == 1));
        bytes.fill(2);
        assert!(bytes.iter().all(|byte| *byte == 2));
        clear(bytes);
    }

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
