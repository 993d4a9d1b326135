//! Frames and addresses from the network.

use weft_wire::{Address, Chunk, HEADER_LEN, HELLO_LEN, Header, Hello, JobKey, ORIGIN_LEN, Origin};

/// What a receiver does with a frame before it knows anything of it. Nothing may panic, and what is
/// taken must lie inside the frame.
pub fn frame(bytes: &[u8]) {
    let key = JobKey([7; 16]);
    if let Ok(header) = Header::decode(bytes) {
        assert_eq!(header.body(bytes).len(), usize::from(header.len));
        // Whatever the header says, its check must not panic; that a random tag fits is out of
        // reach.
        assert!(header.verify(&key.connection(1, 2), bytes).is_err());
        assert!(header.verify(&key.everyone(1), bytes).is_err());
        assert_eq!(Origin::decode(header.body(bytes)).is_some(), header.len as usize >= ORIGIN_LEN);
        chunks(bytes, HEADER_LEN + usize::from(header.len));
    }
    chunks(bytes, bytes.len());
    hello(bytes, &key);
}

/// A row of chunks as far as it makes sense: each must move on and stay inside.
pub fn chunks(bytes: &[u8], end: usize) {
    let mut at = HEADER_LEN;
    while let Ok((chunk, next)) = Chunk::decode(bytes, at, end) {
        assert!(next > at && next <= end, "{chunk:?} at {at} goes on at {next} of {end}");
        match chunk {
            Chunk::Message { payload, .. }
            | Chunk::Fragment { payload, .. }
            | Chunk::Data { payload, .. }
            | Chunk::Push { payload, .. } => {
                assert!(payload.start >= at && payload.end <= next);
                assert!(bytes.get(payload).is_some());
            }
            Chunk::Ack(ack) => {
                for (missing, came) in ack.ranges(bytes) {
                    assert!(missing > 0 && came > 0);
                }
            }
            _ => {}
        }
        at = next;
    }
}

/// What comes over a tso link: the part of a frame that it says it is lies in that frame, and is no
/// longer than what came.
pub fn tso(bytes: &[u8]) {
    let Some((whole, part)) = weft_link::tso_part(bytes) else { return };
    assert!(part.start < part.end && part.end <= whole && part.len() <= bytes.len());
}

fn hello(bytes: &[u8], key: &JobKey) {
    let Ok((hello, proved)) = Hello::decode(&key.hello(), bytes) else { return };
    assert!(!proved, "a random frame has proved that it knows the key");
    // What was understood can be said again, and is understood the same way.
    let mut again = [0; HELLO_LEN];
    assert_eq!(hello.encode(1, &key.hello(), &mut again), HELLO_LEN);
    assert_eq!(Hello::decode(&key.hello(), &again), Ok((hello, true)));
}

/// An address from the wire-up or a hello.
pub fn address(bytes: &[u8]) {
    let Ok(address) = Address::decode(bytes) else { return };
    assert_eq!(Address::decode(&address.encode()), Ok(address));
    // Shown to people, whatever is in it.
    let _ = (address.host(), address.to_string(), format!("{address:?}"));
}
