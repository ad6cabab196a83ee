package upgrade

import "os"

// A return writes links and the static pods of the old release. On a disk that is full by
// then it could not, so a part of it is kept from before the host leaves on. The journal needs
// none: it is written over itself.
const (
	reserveFile = "reserve"
	reserveSize = 4 << 20
)

// Reserve keeps a part of the disk. What is kept already stays.
func (s Store) Reserve() error {
	if info, err := os.Stat(s.path(reserveFile)); err == nil && info.Size() == reserveSize {
		return nil
	}
	return s.WriteFile(s.path(reserveFile), make([]byte, reserveSize), journalMode)
}

// GiveBack lets it go. It can be done again.
func (s Store) GiveBack() error { return s.Remove(s.path(reserveFile)) }
