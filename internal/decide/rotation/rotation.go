// Package rotation decides how an authority of a site is replaced while
// everything runs. First every reader trusts the old and the new one, then the new
// one signs, and only when nothing of the old one is left is it taken out. So at no
// moment somebody shows what another one does not trust, whoever is away and
// wherever the power is cut.
//
// The key of service accounts is an authority too: it signs tokens, and the API
// servers trust its public part.
package rotation

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// The place of the wishes: a Secret that `holdfast ca rotate` writes and every
// control plane reads. It has a key for each authority.
const (
	WishNamespace = "kube-system"
	WishName      = "holdfast-authorities"
)

// Authority names an authority of a site.
type Authority string

// The authorities of a site that a control plane holds.
const (
	ServiceAccountKey Authority = "service-account-key"
	FrontProxyCA      Authority = "front-proxy-ca"
	EtcdCA            Authority = "etcd-ca"
	KubernetesCA      Authority = "kubernetes-ca"
)

// Authorities returns all authorities, in the order in which people read them.
func Authorities() []Authority {
	return []Authority{ServiceAccountKey, FrontProxyCA, EtcdCA, KubernetesCA}
}

// Replaceable reports whether an authority is one that can be replaced.
func (a Authority) Replaceable() bool {
	return slices.Contains(Authorities(), a)
}

// ID identifies an authority by its public key: the SHA-256 of its
// SubjectPublicKeyInfo in base64, as API servers name the keys of tokens.
type ID string

// Short returns as much of an ID as people compare.
func (i ID) Short() string { return string(i[:min(len(i), 8)]) }

// Phase is a phase of a rotation.
type Phase string

// The phases. A host that is in one has done what the ones before demand.
const (
	// Trust: every control plane trusts the new authority beside the old one.
	Trust Phase = "trust"
	// Sign: every control plane signs with the new one.
	Sign Phase = "sign"
	// Drop: no control plane trusts the old one any more.
	Drop Phase = "drop"
	// Done: the rotation is complete.
	Done Phase = "done"
)

var phases = []Phase{Trust, Sign, Drop, Done}

// reached reports whether a phase is another one or a later one.
func (p Phase) reached(other Phase) bool {
	return slices.Index(phases, p) >= slices.Index(phases, other)
}

// saltBytes is the length of a wish's random part.
const saltBytes = 32

// Wish is what the control planes are to do about one authority. The zero value
// stands for an authority that was never replaced.
type Wish struct {
	Phase Phase `json:"phase"`
	// Salt is random. With it and the root in site.json every control plane derives
	// the same new key, and no key is ever sent. See docs/adr/0065.
	Salt []byte `json:"salt"`
	// Began is when the rotation began; the certificate of a new CA is valid from
	// then on.
	Began time.Time `json:"began"`
	// Turn names the only host that may change files and restart programs now.
	Turn string `json:"turn,omitempty"`
	// Trusted is the time from which on every control plane trusts the new authority,
	// and the API publishes it; only of the Kubernetes CA. Signed is the time from
	// which on nothing is signed by the old authority.
	Trusted time.Time `json:"trusted,omitzero"`
	Signed  time.Time `json:"signed,omitzero"`
	// TokenLife is the life of tokens of the old key that an administrator named last, zero
	// if none did: a later run, or a page, does not know it otherwise. Releases of before
	// this field lose it when they write the wish.
	TokenLife time.Duration `json:"tokenLife,omitzero"`
}

// Name tells one rotation from others, and does not reveal the salt.
func (w Wish) Name() string {
	if len(w.Salt) == 0 {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(w.Salt))[:16]
}

// Running reports whether a rotation is under way.
func (w Wish) Running() bool { return w.Phase != "" && w.Phase != Done }

// ErrWish says that a wish cannot be read.
var ErrWish = errors.New("the Secret " + WishNamespace + "/" + WishName + " has a wish that cannot be read")

// WishOf reads the wish about an authority. The error says what a person can do: nobody knows how
// far that rotation is, so nothing goes on with it.
func WishOf(a Authority, text []byte) (Wish, error) {
	w, err := ParseWish(text)
	if err != nil {
		err = fmt.Errorf("%w, about %s: put it right, or take it away and rotate anew: %s", err, a, TakeAway(a))
	}
	return w, err
}

// TakeAway returns the command that takes the wish about an authority away. Hosts keep their files
// then, and the next rotation begins with what they have.
func TakeAway(a Authority) string {
	return fmt.Sprintf(`kubectl -n %s patch secret %s --type=json -p '[{"op":"remove","path":"/data/%s"}]'`, WishNamespace, WishName, a)
}

// ParseWish reads what String writes. Nothing stands for the zero value.
func ParseWish(text []byte) (Wish, error) {
	var w Wish
	if len(text) == 0 {
		return w, nil
	}
	// The error of the decoder could quote the salt.
	if json.Unmarshal(text, &w) != nil || !slices.Contains(phases, w.Phase) || len(w.Salt) != saltBytes || w.Began.IsZero() {
		return Wish{}, ErrWish
	}
	return w, nil
}

func (w Wish) String() string {
	data, err := json.Marshal(w)
	if err != nil {
		return "" // the fields above can all be written
	}
	return string(data)
}

// Report is what a host says in its node about one authority: what its
// programs use, not only what its files hold.
type Report struct {
	// Of is the name of the wish that the host has read, New the authority that it
	// derives from it. Both are empty before the first rotation.
	Of  string `json:"of,omitempty"`
	New ID     `json:"new,omitempty"`
	// Phase and Turn are those of that wish. Hosts without keys know them from here.
	Phase Phase  `json:"phase,omitempty"`
	Turn  string `json:"turn,omitempty"`
	// Began is when the rotation began that is under way, and Late from when on people
	// should look at it. Only control planes know; zero without one.
	Began time.Time `json:"began,omitzero"`
	Late  time.Time `json:"late,omitzero"`
	// Trusts lists the authorities that it trusts. Signs is the one of what it
	// shows.
	Trusts []ID `json:"trusts"`
	Signs  ID   `json:"signs"`
	// Ends is when the certificate of that authority ends; zero for a key.
	Ends time.Time `json:"ends,omitzero"`
	// Problem says why the host does not do what is wished; empty if nothing is in
	// its way. ByPerson is true if it is something that a person has to do.
	Problem  string `json:"problem,omitempty"`
	ByPerson bool   `json:"byPerson,omitempty"`
	// Restored is true if the wish is older than the last one that the host has followed:
	// etcd was restored. The host keeps its authorities.
	Restored bool `json:"restored,omitempty"`
	// Unreadable is true if the host cannot read what is wished: nobody knows then whether a
	// rotation is under way.
	Unreadable bool `json:"unreadable,omitempty"`
	// Unable says why the host can have no part in a rotation at all.
	Unable string `json:"unable,omitempty"`
}

// Reports is the annotation of a host.
type Reports struct {
	// ControlPlanes is the number with which the site was installed; zero if the host
	// is none.
	ControlPlanes int `json:"controlPlanes"`
	// NoRoot is true on a site from before the root of derived keys.
	NoRoot      bool                 `json:"noRoot,omitempty"`
	Authorities map[Authority]Report `json:"authorities"`
}

// Quiet reports whether nobody replaces an authority, and all programs of the host use what its files say.
func (r Reports) Quiet() bool {
	for _, a := range r.Authorities {
		if a.Phase != "" && a.Phase != Done || a.Problem != "" || len(a.Trusts) == 0 {
			return false
		}
	}
	return true
}

// has reports whether a host has done what a phase demands.
func (r Report) has(p Phase) bool {
	switch {
	case r.New == "" || !slices.Contains(r.Trusts, r.New) || !slices.Contains(r.Trusts, r.Signs):
		return false
	case p == Trust:
		return true
	case r.Signs != r.New:
		return false
	}
	return p == Sign || len(r.Trusts) == 1
}
