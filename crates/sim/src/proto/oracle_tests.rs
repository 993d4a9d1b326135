use super::*;

const LIMIT: Ns = 1_000;

fn oracle() -> Oracle {
    let mut oracle = Oracle::new(LIMIT, 100, Trace::new(4, false));
    (0..3).for_each(|machine| assert_eq!(oracle.start(0, machine), machine));
    oracle
}

/// Process 0 sends message after message of `len` bytes to process 1.
fn send(oracle: &mut Oracle, len: u64, announced: bool) -> (Envelope, Vec<u8>) {
    let (n, content) = oracle.next_message(0, 1);
    oracle.sent(1, 0, 1, len, announced);
    let mut payload = vec![0; len as usize];
    content.fill(0, &mut payload);
    (content.envelope(n), payload)
}

fn wrong(oracle: &Oracle) -> Option<Wrong> {
    oracle.wrong.as_ref().map(|w| w.2.clone())
}

#[test]
fn what_is_right_is_found_right() {
    let mut o = oracle();
    let (a, pa) = send(&mut o, 10, false);
    let (b, pb) = send(&mut o, 20, true);
    let (c, pc) = send(&mut o, 0, false);
    assert!(matches!(o.unfinished(), Some(Wrong::Lost { n: 0, left: 3, .. })));
    o.message(2, 1, 0, &a, &pa);
    o.announced(2, 1, 0, &b, 20);
    o.message(2, 1, 0, &c, &pc);
    o.pull(3, 1, 0, 1, 15);
    o.data(4, 1, 0, 1, 10, &pb[10..15]);
    o.data(4, 1, 0, 1, 0, &pb[..10]);
    assert!(matches!(o.unfinished(), Some(Wrong::Stuck { n: 1, pulled: false, .. })));
    o.pulled(5, 1, 0, 1);
    o.taken(6, 0, 1, 1);
    assert_eq!((wrong(&o), o.unfinished()), (None, None));
    assert_eq!((o.tally.messages, o.tally.pulls, o.tally.bytes), (2, 1, 25));
}

#[test]
fn twice_lost_swapped_damaged_and_made_up_are_told_apart() {
    let mut o = oracle();
    let (a, pa) = send(&mut o, 4, false);
    o.message(2, 1, 0, &a, &pa);
    o.message(2, 1, 0, &a, &pa);
    assert_eq!(wrong(&o), Some(Wrong::Twice { from: 0, n: 0 }));

    let mut o = oracle();
    send(&mut o, 4, false);
    let (b, pb) = send(&mut o, 4, false);
    o.message(2, 1, 0, &b, &pb);
    assert_eq!(wrong(&o), Some(Wrong::Order { from: 0, n: 1, expected: 0 }));

    let mut o = oracle();
    let (a, mut pa) = send(&mut o, 4, false);
    pa[2] ^= 1;
    o.message(2, 1, 0, &a, &pa);
    assert_eq!(wrong(&o), Some(Wrong::Content { from: 0, n: 0, offset: 0 }));

    let mut o = oracle();
    let (a, pa) = send(&mut o, 4, false);
    o.message(2, 1, 0, &Envelope { flags: !a.flags, ..a }, &pa);
    assert_eq!(wrong(&o), Some(Wrong::Envelope { from: 0, n: 0 }));

    let mut o = oracle();
    let (_, content) = o.next_message(2, 1);
    o.message(2, 1, 2, &content.envelope(0), &[]);
    assert_eq!(wrong(&o), Some(Wrong::NeverSent { from: 2, n: 0 }));

    let mut o = oracle();
    let (a, pa) = send(&mut o, 4, false);
    o.message(2, 1, 0, &a, &pa[..3]);
    assert_eq!(wrong(&o), Some(Wrong::Length { from: 0, n: 0, len: 3 }));
}

#[test]
fn large_messages_are_whole_and_end_in_the_right_order() {
    let start = |o: &mut Oracle| {
        let (b, pb) = send(o, 20, true);
        o.announced(2, 1, 0, &b, 20);
        pb
    };
    let mut o = oracle();
    let pb = start(&mut o);
    o.data(3, 1, 0, 0, 0, &pb);
    assert_eq!(wrong(&o), Some(Wrong::NotAsked { from: 0, n: 0, offset: 0 }));

    let mut o = oracle();
    let pb = start(&mut o);
    o.pull(3, 1, 0, 0, 20);
    o.data(3, 1, 0, 0, 1, &pb[1..]);
    o.pulled(4, 1, 0, 0);
    assert_eq!(wrong(&o), Some(Wrong::Hole { from: 0, n: 0 }));

    let mut o = oracle();
    start(&mut o);
    o.taken(3, 0, 1, 0);
    assert_eq!(wrong(&o), Some(Wrong::TooEarly { to: 1, n: 0 }));

    let mut o = oracle();
    start(&mut o);
    o.pull(3, 1, 0, 0, 20);
    o.pull_failed(4, 1, 0, 0);
    assert_eq!(wrong(&o), Some(Wrong::FalseFailure { peer: 0, n: 0 }));
}

#[test]
fn withdrawn_messages_may_be_missing_and_their_pulls_fail() {
    let mut o = oracle();
    let (b, _) = send(&mut o, 20, true);
    send(&mut o, 20, true);
    let (c, pc) = send(&mut o, 3, false);
    o.announced(2, 1, 0, &b, 20);
    o.withdrew(3, 0, 1, 0, true);
    o.withdrew(3, 0, 1, 1, true);
    o.message(4, 1, 0, &c, &pc);
    o.pull(4, 1, 0, 0, 20);
    assert!(matches!(o.unfinished(), Some(Wrong::Stuck { n: 0, .. })));
    o.pull_failed(5, 1, 0, 0);
    assert_eq!((wrong(&o), o.unfinished()), (None, None));
}

#[test]
fn who_waits_for_an_arrival_is_told_once_and_not_before() {
    let mut o = oracle();
    o.awaits(1, 0, 1, 0);
    let (a, pa) = send(&mut o, 4, false);
    o.message(2, 1, 0, &a, &pa);
    assert_eq!(o.unfinished(), Some(Wrong::Untold { from: 0, to: 1, n: 0 }));
    o.known_there(3, 0, 1, 0);
    assert_eq!((wrong(&o), o.unfinished(), o.tally.told), (None, None, 1));
    o.known_there(3, 0, 1, 0);
    assert_eq!(wrong(&o), Some(Wrong::NotThere { to: 1, n: 0 }));

    let mut o = oracle();
    o.awaits(1, 0, 1, 0);
    send(&mut o, 4, false);
    o.known_there(2, 0, 1, 0);
    assert_eq!(wrong(&o), Some(Wrong::NotThere { to: 1, n: 0 }));

    let mut o = oracle();
    o.awaits(1, 0, 1, 0);
    send(&mut o, 4, false);
    o.wait_failed(2, 0, 1, 0);
    assert_eq!(wrong(&o), Some(Wrong::FalseFailure { peer: 1, n: 0 }));
}

#[test]
fn deaths_need_silence_or_a_reason() {
    let mut o = oracle();
    send(&mut o, 4, false);
    o.heard(500, 0, 1);
    o.heard(500, 1, 0);
    o.dead(500 + LIMIT - 1, 0, 1, 0);
    assert_eq!(wrong(&o), Some(Wrong::FalseDeath { peer: 1, silent: LIMIT - 1 }));

    let mut o = oracle();
    let (a, pa) = send(&mut o, 4, false);
    o.heard(500, 0, 1);
    o.dead(500 + LIMIT, 1, 0, 0);
    assert_eq!(wrong(&o), None);
    o.dead(600, 0, 1, 0);
    assert_eq!(wrong(&o), None, "the other has given it up");
    o.message(700, 1, 0, &a, &pa);
    assert_eq!(wrong(&o), Some(Wrong::AfterDeath { from: 0 }));

    let mut o = oracle();
    let (a, pa) = send(&mut o, 4, false);
    o.message(2, 1, 0, &a, &pa);
    o.killed(0);
    assert_eq!(o.unfinished(), Some(Wrong::Unnoticed { at: 1, peer: 0 }));
    o.dead(3, 1, 0, 1);
    assert_eq!(wrong(&o), Some(Wrong::LeftOpen { peer: 0, open: 1 }));
    assert_eq!(o.unfinished(), None);
}

#[test]
fn memory_for_a_peer_is_bounded() {
    let mut o = oracle();
    for _ in 0..11 {
        send(&mut o, 10, false);
    }
    assert_eq!(wrong(&o), None);
    send(&mut o, 10, false);
    assert!(matches!(wrong(&o), Some(Wrong::Memory { pending: 120, max: 100, .. })));
}
