package sim

import "time"

// staysFor is how long Pacemaker keeps a host stopped that was told to stop at a time: a restart
// or a boot, or a person's standby. It draws nothing, so that recorded seeds keep their steps.
func staysFor(since time.Duration) time.Duration {
	if since/time.Millisecond%4 == 0 {
		return 5 * time.Minute
	}
	if since/time.Millisecond%4 == 1 {
		return time.Minute // longer than a leave may take
	}
	return 30 * time.Second
}

// leave stops the Pacemaker of one host, or of both at nearly the same time.
func (w *world) leave(i int) {
	for _, k := range []int{i, 1 - i} {
		h := &w.hosts[k]
		if h.power && !h.leaving {
			h.leaving, h.leavingAt = true, w.now
			w.trace(k, "FAULT is told to stop")
		}
		if w.rng.IntN(2) == 0 {
			return
		}
	}
}
