package loop

import "sync"

// Kick wakes a task. Several kicks that nobody took yet are one.
type Kick chan struct{}

// NewKick returns a kick that nobody has given yet.
func NewKick() Kick { return make(Kick, 1) }

// Kick wakes without waiting.
func (k Kick) Kick() {
	select {
	case k <- struct{}{}:
	default: // it has been woken and has not looked yet
	}
}

// Latest hands the newest of several values to a task, and wakes it.
type Latest[T any] struct {
	Wake Kick

	mu    sync.Mutex
	value T
}

// NewLatest returns one with the zero value.
func NewLatest[T any]() *Latest[T] { return &Latest[T]{Wake: NewKick()} }

// Put replaces the value without waiting.
func (l *Latest[T]) Put(value T) {
	l.mu.Lock()
	l.value = value
	l.mu.Unlock()
	l.Wake.Kick()
}

// Take returns the newest value and leaves the zero value in its place, so that a
// wake that is left over from a value that was taken already does nothing.
func (l *Latest[T]) Take() T {
	l.mu.Lock()
	defer l.mu.Unlock()
	value := l.value
	var zero T
	l.value = zero
	return value
}

// Get returns the newest value. It may be asked again and again.
func (l *Latest[T]) Get() T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.value
}
