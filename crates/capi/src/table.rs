//! Handles: numbers that C programs keep as pointers, which nothing is ever read through.
//!
//! A number has a kind, a place in that kind's table, and which of the objects that were there it
//! means. So a null, a freed or a made-up handle is told from a live one, also where threads use
//! and free it at the same time.

use std::sync::{Arc, PoisonError, RwLock};

use crate::error::{Failure, weft_status};

const KIND_BITS: u32 = 4;
const PLACE_BITS: u32 = 24;

/// One past the greatest number of an object at its place.
const ROUND: usize = 1 << (usize::BITS - KIND_BITS - PLACE_BITS);

/// What a kind of handles stands for.
pub(crate) trait Kind: Send + Sync + Sized + 'static {
    /// What C sees a pointer to.
    type Handle;
    /// Tells handles of this kind from others; 1 to 15.
    const NUMBER: usize;
    /// With its article, for people.
    const NAME: &'static str;

    /// Where its objects are.
    fn table() -> &'static Table<Self>;
}

struct Place<T> {
    /// Which object it is, or will be; never 0.
    number: usize,
    object: Option<Arc<T>>,
}

struct Places<T> {
    places: Vec<Place<T>>,
    free: Vec<usize>,
}

/// The objects of a kind.
pub(crate) struct Table<T>(RwLock<Places<T>>);

impl<T: Kind> Table<T> {
    pub(crate) const fn new() -> Table<T> {
        Table(RwLock::new(Places { places: Vec::new(), free: Vec::new() }))
    }
}

fn dead<T: Kind>(handle: *mut T::Handle) -> Failure {
    let why = if handle.is_null() {
        format!("the handle of {} is null: give one that a call of Weft has made", T::NAME)
    } else {
        format!("this is no handle of {}, or it was freed: use each until it is freed", T::NAME)
    };
    Failure::new(weft_status::WEFT_DEAD_HANDLE, why)
}

/// The place, and which object there.
fn parts<T: Kind>(handle: *mut T::Handle) -> Option<(usize, usize)> {
    let number = handle.addr();
    let place = number >> KIND_BITS & ((1 << PLACE_BITS) - 1);
    let is_kind = number & ((1 << KIND_BITS) - 1) == T::NUMBER;
    is_kind.then_some((place, number >> (KIND_BITS + PLACE_BITS)))
}

/// Puts an object into its table; gives its handle.
pub(crate) fn put<T: Kind>(object: T) -> Result<*mut T::Handle, Failure> {
    let mut table = T::table().0.write().unwrap_or_else(PoisonError::into_inner);
    let at = match table.free.pop() {
        Some(at) => at,
        None if table.places.len() < 1 << PLACE_BITS => {
            table.places.push(Place { number: 1, object: None });
            table.places.len() - 1
        }
        None => {
            let why = format!("there are {} handles of {} already", 1 << PLACE_BITS, T::NAME);
            return Err(Failure::new(weft_status::WEFT_SYSTEM, why + ": free some"));
        }
    };
    let place = &mut table.places[at];
    place.object = Some(Arc::new(object));
    let number = (place.number << PLACE_BITS | at) << KIND_BITS | T::NUMBER;
    Ok(std::ptr::without_provenance_mut(number))
}

/// The object that a handle names, for the length of a call.
pub(crate) fn get<T: Kind>(handle: *mut T::Handle) -> Result<Arc<T>, Failure> {
    let (at, number) = parts::<T>(handle).ok_or_else(|| dead::<T>(handle))?;
    let table = T::table().0.read().unwrap_or_else(PoisonError::into_inner);
    let place = table.places.get(at).filter(|place| place.number == number);
    place.and_then(|place| place.object.clone()).ok_or_else(|| dead::<T>(handle))
}

/// Takes an object out of its table, if nothing and nobody uses it: its handle is dead from then
/// on. It is for the caller to drop, with no lock held.
pub(crate) fn take<T: Kind>(handle: *mut T::Handle) -> Result<T, Failure> {
    let (at, number) = parts::<T>(handle).ok_or_else(|| dead::<T>(handle))?;
    let mut table = T::table().0.write().unwrap_or_else(PoisonError::into_inner);
    let place = table.places.get_mut(at).filter(|place| place.number == number);
    let place = place.ok_or_else(|| dead::<T>(handle))?;
    let object = place.object.take().ok_or_else(|| dead::<T>(handle))?;
    match Arc::try_unwrap(object) {
        Ok(object) => {
            place.number = if number + 1 == ROUND { 1 } else { number + 1 };
            table.free.push(at);
            Ok(object)
        }
        Err(object) => {
            let users = Arc::strong_count(&object) - 1;
            place.object = Some(object);
            let why = format!(
                "{} cannot be freed: {users} others use it, which are what was made on it, or \
                 calls of other threads: free those, and end these, first",
                T::NAME
            );
            Err(Failure::new(weft_status::WEFT_BUSY, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    struct Thing(u32);
    struct Named;
    static THINGS: Table<Thing> = Table::new();

    impl Kind for Thing {
        type Handle = Named;
        const NUMBER: usize = 15;
        const NAME: &'static str = "a thing";

        fn table() -> &'static Table<Thing> {
            &THINGS
        }
    }

    fn status<T>(result: Result<T, Failure>) -> Option<weft_status> {
        result.err().map(|failure| failure.status())
    }

    #[test]
    fn only_live_handles_name_something() {
        let handle = put(Thing(7)).unwrap_or_else(|_| panic!("there is room"));
        let dead = Some(weft_status::WEFT_DEAD_HANDLE);
        assert_eq!(get::<Thing>(handle).map(|thing| thing.0).ok(), Some(7));
        for bits in 0..usize::BITS {
            let other = std::ptr::without_provenance_mut(handle.addr() ^ 1 << bits);
            assert_eq!(status(get::<Thing>(other)), dead, "{bits}");
            assert_eq!(status(take::<Thing>(other)), dead, "{bits}");
        }
        assert_eq!(status(get::<Thing>(std::ptr::null_mut())), dead);

        let used = get::<Thing>(handle).ok();
        assert_eq!(status(take::<Thing>(handle)), Some(weft_status::WEFT_BUSY));
        drop(used);
        assert_eq!(take::<Thing>(handle).map(|thing| thing.0).ok(), Some(7));
        assert_eq!(status(take::<Thing>(handle)), dead);
        let next = put(Thing(8)).unwrap_or_else(|_| panic!("there is room"));
        assert_ne!(next, handle);
        assert_eq!(status(get::<Thing>(handle)), dead);
    }

    struct Counted;
    struct CountedNamed;
    static COUNTED: Table<Counted> = Table::new();

    impl Kind for Counted {
        type Handle = CountedNamed;
        const NUMBER: usize = 14;
        const NAME: &'static str = "a counted thing";

        fn table() -> &'static Table<Counted> {
            &COUNTED
        }
    }

    #[test]
    fn of_threads_that_free_the_same_one_wins() {
        for _ in 0..200 {
            let number = put(Counted).map(|handle| handle.addr()).ok();
            let free = move || {
                let handle = std::ptr::without_provenance_mut(number.unwrap_or(0));
                take::<Counted>(handle).is_ok()
            };
            let threads = [thread::spawn(free), thread::spawn(free)];
            let wins = threads.map(|thread| thread.join().unwrap_or(false));
            assert_eq!(wins.iter().filter(|won| **won).count(), 1);
        }
    }
}
