//! Regions of a program's own vectors.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use weft_sys::buf::Buf;
use weft_sys::plain::Plain;

use super::Region;

/// A [`Region`] of a vector of numbers that was given to [`Endpoint::register`], and comes back by
/// [`OwnedRegion::into_vec`].
///
/// Until then it is used as every region is, by copies: peers write it while the program does
/// something else, which no slice allows. Offsets are in bytes, of numbers in the byte order of the
/// machine.
///
/// ```
/// # use weft::{context::{Context, ContextOptions}, endpoint::Endpoint, wireup::Job};
/// # use weft::remote::Rights;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let mut job = Job::single()?;
/// # let endpoint = Endpoint::new(Context::open(&mut job, &ContextOptions::default())?)?;
/// let region = endpoint.register(vec![0.5f64; 100], Rights::ALL)?;
/// // A peer that was sent the handle:
/// endpoint.fetch_add(&region.handle(), 8, 2.0f64)?;
/// // The owner, when nobody is to reach it any more:
/// let numbers = region.into_vec();
/// assert_eq!(numbers[..3], [0.5, 2.5, 0.5]);
/// # Ok(())
/// # }
/// ```
///
/// [`Endpoint::register`]: crate::endpoint::Endpoint::register
pub struct OwnedRegion<'e, T> {
    region: Region<'e>,
    memory: Buf,
    numbers: PhantomData<Vec<T>>,
}

impl<'e, T: Plain> OwnedRegion<'e, T> {
    pub(crate) fn new(region: Region<'e>, memory: Buf) -> OwnedRegion<'e, T> {
        OwnedRegion { region, memory, numbers: PhantomData }
    }

    /// Drops the region, and gives its vector back: as it was given, but for what was written there
    /// since. Waits until pieces that peers are moving in this moment have ended.
    pub fn into_vec(self) -> Vec<T> {
        let OwnedRegion { region, memory, .. } = self;
        let endpoint = region.endpoint();
        drop(region);
        endpoint.take_back(memory)
    }
}

impl<'e, T> Deref for OwnedRegion<'e, T> {
    type Target = Region<'e>;

    fn deref(&self) -> &Region<'e> {
        &self.region
    }
}

impl<T> fmt::Debug for OwnedRegion<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.region.fmt(f)
    }
}
