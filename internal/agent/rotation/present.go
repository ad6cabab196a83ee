package rotation

import (
	"os"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/model/site"
)

// Present returns a site's keys with those authorities that a control plane has now
// in place of the ones from its installation, for a host that joins. What cannot be
// read stays as it was.
func Present(root string, id site.Identity) site.Identity {
	if now, ok := present(root, places[rotation.ServiceAccountKey]); ok {
		id.ServiceSigner = now
	}
	if now, ok := present(root, places[rotation.FrontProxyCA]); ok {
		id.FrontProxyCA = now
	}
	if now, ok := present(root, places[rotation.EtcdCA]); ok {
		id.EtcdCA = now
	}
	return id
}

// present reads an authority. The one whose key is there comes first: kubeadm on the
// host that joins signs with the first one.
func present(root string, at place) (site.KeyPair, bool) {
	key, err := os.ReadFile(root + at.key)
	if err != nil {
		return site.KeyPair{}, false
	}
	id, err := keys.KeyID(string(key))
	if err != nil {
		return site.KeyPair{}, false
	}
	text, err := os.ReadFile(root + at.trusts)
	if err != nil {
		return site.KeyPair{}, false
	}
	publics, err := keys.Publics(string(text))
	if err != nil {
		return site.KeyPair{}, false
	}
	var own, others string
	for _, p := range publics {
		if p.ID == id {
			own += p.Block
		} else {
			others += p.Block
		}
	}
	return site.KeyPair{Cert: own + others, Key: string(key)}, own != ""
}
