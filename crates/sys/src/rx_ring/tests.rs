//! A ring without a kernel behind it.

use super::*;

const LEN: usize = 4096;

/// A ring of two slots without a kernel behind it.
fn ring() -> RxRing {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let at = std::ptr::null_mut();
    // SAFETY: a fresh mapping at an address of the kernel's choice touches no other memory.
    let mapped = unsafe { rustix::mm::mmap_anonymous(at, LEN, access, MapFlags::PRIVATE) };
    RxRing {
        memory: NonNull::new(mapped.unwrap().cast()).unwrap(),
        len: LEN,
        slot_len: LEN / 2,
        slots_per_block: 2,
        block_len: LEN,
        at: 0,
        in_block: 0,
        current: None,
        whole_len: Some(|bytes| bytes.first().map(|len| usize::from(*len)).filter(|len| *len > 0)),
        early: false,
        copy: [0; WORDS],
        losing: false,
        mark_at: (FRAME_AT + ETHERTYPE_AT) & !3,
        looks: 0,
    }
}

/// Writes what the kernel does for a frame of 60 bytes at `start` in the slot at `at`.
fn hand_over(ring: &RxRing, at: usize, start: u16) {
    let header = libc::tpacket2_hdr {
        tp_status: libc::TP_STATUS_USER,
        tp_len: 60,
        tp_snaplen: 60,
        tp_mac: start,
        tp_net: start + 14,
        tp_sec: 1,
        tp_nsec: 2,
        tp_vlan_tci: 0,
        tp_vlan_tpid: 0,
        tp_padding: [0; 4],
    };
    // SAFETY: in bounds and aligned; nobody else has the memory.
    unsafe { ring.memory.as_ptr().add(at).cast::<libc::tpacket2_hdr>().write(header) };
}

#[test]
fn a_frame_whose_mark_is_zero_is_found_some_looks_later_and_can_be_taken() {
    let mut ring = ring();
    for at in [0, LEN / 2] {
        assert!(ring.next_came().is_none() && ring.advance().is_none());
        hand_over(&ring, at, 128);
        let looks = (0..MARK_LOOKS).take_while(|_| ring.next_came().is_none()).count();
        assert!(looks < usize::from(MARK_LOOKS), "it is found");
        assert_eq!(ring.next_came(), Some((1, 2)), "it stays found");
        assert_eq!(ring.advance().map(|slot| slot.len), Some(60), "and is taken");
        ring.release();
    }
    assert!((0..=MARK_LOOKS).all(|_| ring.advance().is_none()), "once");
}

#[test]
fn a_mark_is_followed_at_once_by_a_look_at_the_status() {
    let mut ring = ring();
    ring.word(ring.mark_at).store(1, Ordering::Relaxed);
    assert!(ring.advance().is_none(), "the kernel still writes");
    hand_over(&ring, 0, FRAME_AT as u16);
    assert!(ring.advance().is_some());
    ring.release();
    assert_eq!(ring.word(ring.mark_at).load(Ordering::Relaxed), 0);
    assert!(ring.advance().is_none());
}

/// The words that a stamp is about, of the slot at `at`.
fn words_at(ring: &RxRing, at: usize) -> &[AtomicU64; WORDS] {
    stamped_words(&ring.memory, ring.len, at + FRAME_AT - LEAD)
}

/// Writes a frame of 14 and `len` bytes as the kernel does before it hands it over.
fn write_stamped(ring: &RxRing, at: usize, len: u8) -> Vec<u8> {
    let mut frame = vec![5; STAMPED_MAX];
    (frame[ETHERNET_HEADER_LEN], frame[ETHERTYPE_AT]) = (len, 1);
    let whole = stamp::write(&mut frame, ETHERNET_HEADER_LEN + usize::from(len)).unwrap();
    let words = words_at(ring, at);
    let mut bytes = vec![0xee; LEAD];
    bytes.extend_from_slice(&frame[..whole]);
    bytes.resize(8 * WORDS, 0);
    for (word, bytes) in words.iter().zip(bytes.as_chunks::<8>().0) {
        word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
    }
    frame.truncate(ETHERNET_HEADER_LEN + usize::from(len));
    frame
}

#[test]
fn a_stamped_frame_is_taken_at_once_and_its_slot_given_back_when_the_kernel_has_done() {
    let mut ring = ring();
    for (at, len) in [(0, 70), (LEN / 2, 71), (0, 168), (LEN / 2, 32)] {
        let frame = write_stamped(&ring, at, len);
        assert_eq!(ring.advance().map(|slot| slot.whole), Some(frame.len()));
        assert_eq!(ring.frame(), frame);
        assert!(ring.advance().is_none(), "the kernel has not handed it over");
        assert_eq!(ring.word(at + ring.mark_at).load(Ordering::Relaxed) as u16 & 1, 1);
        assert_eq!(ring.frame(), frame, "nor is it lost");
        hand_over(&ring, at, FRAME_AT as u16);
        assert!(ring.advance().is_none(), "it is taken once");
        assert_eq!(ring.status(at).load(Ordering::Relaxed), libc::TP_STATUS_KERNEL);
        assert_eq!(ring.word(at + ring.mark_at).load(Ordering::Relaxed), 0);
    }
}

#[test]
fn a_half_written_frame_is_not_taken_and_is_by_its_status_in_the_end() {
    let mut ring = ring();
    let whole = write_stamped(&ring, 0, 70);
    let last = words_at(&ring, 0)[8].swap(0, Ordering::Relaxed);
    assert!((0..9).all(|_| ring.advance().is_none()));
    words_at(&ring, 0)[8].store(last, Ordering::Relaxed);
    assert_eq!(ring.advance().map(|slot| slot.len), Some(whole.len()));
    hand_over(&ring, 0, FRAME_AT as u16);
    assert!(ring.release());
    // A frame without a right stamp, as from another program, waits for the kernel's word.
    write_stamped(&ring, LEN / 2, 46);
    words_at(&ring, LEN / 2)[3].store(1, Ordering::Relaxed);
    assert!((0..9).all(|_| ring.advance().is_none()));
    hand_over(&ring, LEN / 2, FRAME_AT as u16);
    assert_eq!(ring.advance().map(|slot| slot.len), Some(60), "what says 46 has 60 bytes");
}
