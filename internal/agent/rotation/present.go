package rotation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Present returns a site's keys with those authorities that a control plane has now
// in place of the ones from its installation, for a host of a role that joins. A worker
// knows no other one than the Kubernetes CA. An authority of the installation stays only
// while this host is not set up: later the site may have dropped it.
func Present(root string, id site.Identity, role state.Role) (site.Identity, error) {
	pairs := map[rotation.Authority]*site.KeyPair{
		rotation.ServiceAccountKey: &id.ServiceSigner, rotation.FrontProxyCA: &id.FrontProxyCA, rotation.EtcdCA: &id.EtcdCA, rotation.KubernetesCA: &id.KubernetesCA,
	}
	for a, pair := range pairs {
		if a != rotation.KubernetesCA && !role.ControlPlane() {
			continue
		}
		now, err := present(root, places[a], role)
		if errors.Is(err, errNotSetUp) {
			continue
		}
		if err != nil {
			return site.Identity{}, err
		}
		*pair = now
	}
	return id, nil
}

// errNotSetUp means that this host has no files of an authority yet.
var errNotSetUp = errors.New("this host is not set up")

// present reads an authority. The one whose key is there comes first: kubeadm on a
// control plane that joins signs with the first one. A worker needs no key, so it is
// given what is trusted by a host without the key, too.
func present(root string, at place, role state.Role) (site.KeyPair, error) {
	text, err := os.ReadFile(root + at.trusts)
	if errors.Is(err, fs.ErrNotExist) {
		return site.KeyPair{}, errNotSetUp
	}
	if err != nil {
		return site.KeyPair{}, err
	}
	publics, err := keys.Publics(string(text))
	if err != nil {
		return site.KeyPair{}, fmt.Errorf("%s: %w", at.trusts, err)
	}
	key, id, err := signer(root, at)
	if err != nil && role.ControlPlane() {
		return site.KeyPair{}, err
	}
	var own, others string
	for _, p := range publics {
		if p.ID == id {
			own += p.Block
		} else {
			others += p.Block
		}
	}
	if own == "" && role.ControlPlane() {
		return site.KeyPair{}, fmt.Errorf("%s is the key of no authority in %s: this host takes in no control plane", at.key, at.trusts)
	}
	return site.KeyPair{Cert: own + others, Key: key}, nil
}

// signer reads the key of an authority, and returns its ID too.
func signer(root string, at place) (key, id string, err error) {
	data, err := os.ReadFile(root + at.key)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", fmt.Errorf("this host has no %s: it takes in no control plane", at.key)
	}
	if err != nil {
		return "", "", err
	}
	if id, err = keys.KeyID(string(data)); err != nil {
		return "", "", fmt.Errorf("%s: %w", at.key, err)
	}
	return string(data), id, nil
}
