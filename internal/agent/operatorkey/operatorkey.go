// Package operatorkey keeps, on a control plane, the files with which the
// operator's pod accesses etcd: a certificate of its own and etcd's authorities,
// in a folder that holds nothing else. The key of etcd's authority stays with the
// host: an attacker who finds a hole in the operator becomes a client of etcd and
// never its authority.
package operatorkey

import (
	"bytes"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/operator"
)

// name is the operator's identity for etcd.
var name = pkix.Name{CommonName: operator.Name}

// Keeper keeps the files of one host.
type Keeper struct {
	// Root is empty except in tests. Owner is the operator's user.
	Root  string
	Owner int
	// Period is the site's certificateValidityPeriod; zero if nobody knows it.
	Period time.Duration
	Now    func() time.Time
}

// New returns the Keeper of this host, in a site with this certificateValidityPeriod.
func New(period time.Duration, now func() time.Time) Keeper {
	return Keeper{Owner: operator.User, Period: period, Now: now}
}

// Keep makes the pair if none is still valid, and copies the authorities if they
// changed. On a host without etcd's authority it returns fs.ErrNotExist.
func (k Keeper) Keep() (renewed bool, err error) {
	etcd := filepath.Join(k.Root, operator.FormerEtcdFolder)
	bundle, err := os.ReadFile(filepath.Join(etcd, "ca.crt"))
	if err != nil {
		return false, err
	}
	key, err := os.ReadFile(filepath.Join(etcd, "ca.key"))
	if err != nil {
		return false, fmt.Errorf("the operator gets no certificate for etcd without the key of etcd's authority: %s", err) //nolint:errorlint // this host is set up
	}
	folder := filepath.Join(k.Root, operator.EtcdFolder)
	if err := k.put(filepath.Join(folder, operator.EtcdAuthorities), bundle); err != nil {
		return false, err
	}
	path := filepath.Join(folder, operator.EtcdPair)
	pair, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	fresh, life, now := string(pair), keys.ClientLife(k.Period), k.Now()
	if !keys.ClientServes(fresh, name, string(bundle), string(key), life, now) {
		if fresh, err = keys.Client(name, string(bundle), string(key), life, now); err != nil {
			return false, fmt.Errorf("the operator's certificate for etcd: %w", err)
		}
		renewed = true
	}
	return renewed, k.put(path, []byte(fresh))
}

// Follows reports whether the operator's files are those that Keep would leave.
func (k Keeper) Follows() (bool, error) {
	etcd, folder := filepath.Join(k.Root, operator.FormerEtcdFolder), filepath.Join(k.Root, operator.EtcdFolder)
	var texts [4]string
	for i, path := range []string{
		filepath.Join(etcd, "ca.crt"), filepath.Join(etcd, "ca.key"), filepath.Join(folder, operator.EtcdAuthorities), filepath.Join(folder, operator.EtcdPair),
	} {
		data, err := os.ReadFile(path)
		if err != nil {
			return false, err
		}
		texts[i] = string(data)
	}
	bundle, key, own, pair := texts[0], texts[1], texts[2], texts[3]
	return own == bundle && keys.ClientServes(pair, name, bundle, key, keys.ClientLife(k.Period), k.Now()), nil
}

// put writes one of the operator's files unless it is there already with the same
// data, mode and owner. The folder stays root's: nobody else puts anything there.
func (k Keeper) put(path string, data []byte) error {
	if k.is(path, data) {
		return nil
	}
	return host.WriteFileFor(path, data, state.SecretFileMode, k.Owner, k.Owner)
}

func (k Keeper) is(path string, data []byte) bool {
	var s unix.Stat_t
	if unix.Lstat(path, &s) != nil || s.Mode != unix.S_IFREG|uint32(state.SecretFileMode) || int(s.Uid) != k.Owner {
		return false
	}
	have, err := os.ReadFile(path)
	return err == nil && bytes.Equal(have, data)
}
