//! What the system and the processor can be told about memory that will be needed.
#![cfg_attr(
    all(any(target_os = "linux", target_arch = "x86_64"), not(miri)),
    expect(
        unsafe_code,
        reason = "a system call and an instruction that take an address"
    )
)]

/// From so many bytes on it is worth asking: two of the pages that processors have besides the small ones.
const LEAST: usize = 4 << 20;

/// Asks the system to use large pages for a list that is about to be filled, if it is a long one. It is free to ignore
/// that, and where it does not know how to, nothing happens.
///
/// A list of millions of records in small pages costs a miss in the processor's table of pages every 64 records, and
/// stops its prefetching there: a chain of tasks took 14 ns a task instead of 9.
pub(crate) fn prefer_large<T>(list: &Vec<T>) {
    let bytes = list.capacity() * size_of::<T>();
    if bytes >= LEAST {
        advise(list.as_ptr().cast(), bytes);
    }
}

/// Gives up what a list has room for and does not use. A long one moves, to a place that the system has been asked about.
pub(crate) fn shrink<T>(list: &mut Vec<T>) {
    if list.capacity() * size_of::<T>() < LEAST {
        list.shrink_to_fit();
    } else if list.len() < list.capacity() {
        let mut small = Vec::with_capacity(list.len());
        prefer_large(&small);
        small.append(list);
        *list = small;
    }
}

/// Tells the processor that what is at `place` will be needed soon.
#[inline(always)]
pub(crate) fn fetch<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint about any address, valid or not; every processor of this kind has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

/// Tells the processor that the line at `place` will be written soon. A line that another core has
/// written comes with the right to write it; after [`fetch`] the first write would ask for that again.
#[inline(always)]
pub(crate) fn fetch_to_write<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint about any address, valid or not. A processor without it takes it as no operation.
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
        // SAFETY: the range is inside of one allocation. The advice changes nothing about what is in it, and what
        // becomes of it when the memory is freed and used again is no harm.
        let whole = unsafe { start.add(offset) };
        // SAFETY: as above.
        let _ =
            unsafe { libc::madvise(whole.cast_mut().cast(), bytes - offset, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn advise(_start: *const u8, _bytes: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_what_it_was() {
        let mut list = Vec::<u64>::with_capacity(1 << 20);
        prefer_large(&list);
        list.extend(0..1 << 20);
        list.reserve(1);
        prefer_large(&list);
        shrink(&mut list);
        assert_eq!(list.capacity(), 1 << 20);
        assert!(list.iter().copied().eq(0..1 << 20));
    }
}
