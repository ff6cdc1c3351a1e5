//! The number that a range or a mark carries.

/// A number attached to a range or a mark, in one of the six types that the interface has.
///
/// ```
/// use nvtx_rs::{Attributes, Payload};
/// assert_eq!(Payload::from(64u64), Payload::U64(64));
/// let step = Attributes::new().message("step").payload(0.25f32);
/// # let _ = step;
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Payload {
    /// An unsigned number of 64 bits. Nsight Systems shows it as signed.
    U64(u64),
    /// A signed number of 64 bits.
    I64(i64),
    /// A floating-point number of 64 bits.
    F64(f64),
    /// An unsigned number of 32 bits.
    U32(u32),
    /// A signed number of 32 bits.
    I32(i32),
    /// A floating-point number of 32 bits.
    F32(f32),
}

macro_rules! from_number {
    ($($number:ty => $variant:ident,)*) => {
        $(
            impl From<$number> for Payload {
                #[inline]
                fn from(value: $number) -> Self {
                    Self::$variant(value)
                }
            }
        )*
    };
}

from_number! { u64 => U64, i64 => I64, f64 => F64, u32 => U32, i32 => I32, f32 => F32, }

impl From<usize> for Payload {
    #[inline]
    fn from(value: usize) -> Self {
        Self::U64(value as u64)
    }
}
