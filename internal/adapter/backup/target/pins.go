package target

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/holdfast/holdfast/internal/model/backup"
)

// ErrOtherServer is returned if a server has none of the pinned keys.
var ErrOtherServer = errors.New("the server has another key than hostKeys names: either its keys were changed, or it is another machine")

// compareKeys says what a person does about another key.
const compareKeys = "compare what ssh-keyscan prints with the server's own keys, and name one of them in hostKeys"

// pins are the keys that a configuration trusts, and the others that the server has shown. A server
// shows one key in each connection, and a fingerprint does not say of which kind its key is: so a
// server that shows another key is asked for one of another kind.
type pins struct {
	keys []backup.HostKey
	seen []ssh.PublicKey
}

func pinsOf(texts []string) (*pins, error) {
	out := &pins{}
	for _, text := range texts {
		key, err := backup.ParseHostKey(text)
		if err != nil {
			return nil, errors.New("its host key is not readable")
		}
		out.keys = append(out.keys, key)
	}
	return out, nil
}

// keyKinds are the kinds of keys that a server may have, the usual ones first.
var keyKinds = []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSA}

// algorithms returns the algorithms with which the server may prove a key that may be one of the
// pinned ones. SHA-1 is not used with RSA keys.
func (p *pins) algorithms() []string {
	var out []string
	for _, kind := range p.kinds() {
		if kind == ssh.KeyAlgoRSA {
			out = append(out, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			continue
		}
		out = append(out, kind)
	}
	return out
}

// kinds returns the kinds of keys that were not shown yet and that may be pinned.
func (p *pins) kinds() []string {
	var out []string
	for _, k := range p.keys {
		if k.Kind == "" {
			out = append(out, keyKinds...)
			continue
		}
		out = append(out, k.Kind)
	}
	return slices.DeleteFunc(out, func(kind string) bool {
		return slices.ContainsFunc(p.seen, func(k ssh.PublicKey) bool { return k.Type() == kind })
	})
}

// check implements ssh.HostKeyCallback.
func (p *pins) check(_ string, _ net.Addr, key ssh.PublicKey) error {
	if slices.ContainsFunc(p.keys, func(k backup.HostKey) bool { return k.Fingerprint == ssh.FingerprintSHA256(key) }) {
		return nil
	}
	p.seen = append(p.seen, key)
	return p.refusal()
}

// refusal names the keys that the server has shown.
func (p *pins) refusal() error {
	var shown []string
	for _, key := range p.seen {
		shown = append(shown, key.Type()+" "+ssh.FingerprintSHA256(key))
	}
	return fmt.Errorf("%w: it has %s; %s", ErrOtherServer, strings.Join(shown, " and "), compareKeys)
}
