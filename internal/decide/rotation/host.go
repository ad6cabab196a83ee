package rotation

import "slices"

// Have is what the files of a host hold.
type Have struct {
	// Trusts lists the authorities in the file of trusted ones, in its order.
	Trusts []ID
	// Key is the authority whose private key is there, and Leaf the one that signed
	// what the host shows. Without a certificate, Leaf is Key.
	Key, Leaf ID
	// Loaded is true if every program that reads these files uses what they hold.
	Loaded bool
}

// Act names a change of a host.
type Act string

// The changes of a host. Each is one write, or can be repeated.
const (
	// Rest: nothing is to be done.
	Rest Act = "rest"
	// WriteTrusts: write Change.Trusts to the file of trusted authorities.
	WriteTrusts Act = "write trusts"
	// WriteKey: write the private key of the new authority.
	WriteKey Act = "write key"
	// WriteLeaf: sign what the host shows by the new authority.
	WriteLeaf Act = "write leaf"
	// Load: have every program use what the files hold.
	Load Act = "load"
)

// Change is the next change of a host.
type Change struct {
	Act    Act
	Trusts []ID
}

// NextChange decides the next change of a host from its files alone, so it does not
// matter where an earlier run was cut off. fresh is the new authority.
//
// While a rotation runs, only the host whose turn it is changes anything. After it,
// a host that was away or has older files mends itself at once: nobody trusts what
// it shows. No change goes back: nothing but the end of Drop takes a trusted
// authority out.
func NextChange(w Wish, host string, fresh ID, have Have) Change {
	if w.Phase == "" || w.Running() && w.Turn != host {
		return Change{Act: Rest}
	}
	signs := w.Phase.reached(Sign)
	switch {
	case !slices.Contains(have.Trusts, fresh):
		return Change{Act: WriteTrusts, Trusts: append(slices.Clone(have.Trusts), fresh)}
	case signs && have.Key != fresh:
		return Change{Act: WriteKey}
	case signs && have.Trusts[0] != fresh:
		// kubeadm takes the first certificate of the file as the one that signs.
		return Change{Act: WriteTrusts, Trusts: first(fresh, have.Trusts)}
	case signs && have.Leaf != fresh:
		return Change{Act: WriteLeaf}
	case !have.Loaded:
		return Change{Act: Load}
	case w.Phase.reached(Drop) && len(have.Trusts) > 1:
		return Change{Act: WriteTrusts, Trusts: []ID{fresh}}
	}
	return Change{Act: Rest}
}

// first returns a list with one of its members before all others.
func first(id ID, list []ID) []ID {
	return append([]ID{id}, slices.DeleteFunc(slices.Clone(list), func(other ID) bool { return other == id })...)
}
