//! How far two workers or CPUs are from each other.

/// What two CPUs share, from near to far.
///
/// The order is that in which a thief visits its victims, see
/// [`engine::Distances::of_places`](crate::engine::Distances::of_places).
///
/// ```
/// use filch::topology::Distance;
///
/// assert!(Distance::Core < Distance::L3 && Distance::Node < Distance::Far);
/// assert_eq!(Distance::Far as usize, 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Distance {
    /// They are SMT threads of one core, or the same CPU.
    Core,
    /// They share the L3 cache, or the last cache that several cores share.
    L3,
    /// They share the memory of a NUMA node.
    Node,
    /// They share nothing of that, or it is not known.
    Far,
}
