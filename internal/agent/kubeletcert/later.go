package kubeletcert

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/leafcert"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
)

// unreadPath is a file that is there from the moment before a certificate from a later day
// is replaced until kubelet has started with another one. It names the kubelet that ran once
// the files were complete, and is empty before. It ends with the boot, as that kubelet does.
const unreadPath = "/run/holdfast/kubelet-unread"

// times says how the validity of a certificate relates to a clock.
type times int

const (
	valid times = iota
	expired
	later // it is valid from a later day on
)

func validity(c *x509.Certificate, now time.Time) times {
	switch {
	case now.Before(c.NotBefore):
		return later
	case now.After(c.NotAfter):
		return expired
	}
	return valid
}

// trusted returns nil if an administrator's word counts that the clock of this host is right,
// although a certificate is from a later day.
func (k *Keeper) trusted(what string, c *x509.Certificate) error {
	accepted, err := leafcert.Accepted(k.Root, k.Now(), k.Synchronised)
	if err != nil || accepted {
		return err
	}
	return fmt.Errorf("the clock of this host says %s, and %s was issued at %s: %s, or if this one is right: sudo holdfast certificates clock --accept",
		stamp(k.Now()), what, stamp(c.NotBefore), setClocks)
}

// early replaces kubelet's certificate, which is from a later day. A control plane signs
// another one. A worker goes back to a former one, because nobody gives it another for one
// that is not valid yet.
func (k *Keeper) early(ctx context.Context, own *tls.Certificate) (did string, err error) {
	if err := k.trusted("kubelet's certificate", own.Leaf); err != nil {
		return "", err
	}
	if err := k.unread(""); err != nil {
		return "", err
	}
	if k.Sign != nil {
		return k.renew(ctx, own, "is valid only from "+stamp(own.Leaf.NotBefore)+" on", "")
	}
	return k.back(own.Leaf)
}

// back makes kubelet's link lead to its former certificate, which is whole on the disk
// already. One that has expired is then renewed as ever.
func (k *Keeper) back(own *x509.Certificate) (did string, err error) {
	like := func(c *x509.Certificate) bool {
		return bytes.Equal(c.RawSubject, own.RawSubject) && bytes.Equal(c.AuthorityKeyId, own.AuthorityKeyId)
	}
	return k.toFormer("is valid only from "+stamp(own.NotBefore)+" on", like)
}

// server has kubelet ask for another certificate by which it serves, if its own is from a
// later day: a kubelet that starts without one asks at once, and the control planes approve
// it as ever.
func (k *Keeper) server(context.Context) (did string, err error) {
	path := k.Root + kubeadm.ServingCertificate
	own, err := readPair(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // kubelet asks already, or signs its own
	}
	if broken, ok := errors.AsType[damagedError](err); ok {
		return askAnew(path, "cannot be read: "+broken.Error())
	}
	if err != nil || validity(own.Leaf, k.Now()) != later {
		return "", err
	}
	if err := k.trusted("the certificate by which kubelet serves", own.Leaf); err != nil {
		return "", err
	}
	if err := k.unread(""); err != nil {
		return "", err
	}
	return askAnew(path, "is valid only from "+stamp(own.Leaf.NotBefore)+" on")
}

// askAnew has kubelet ask for another certificate to serve by once it starts.
func askAnew(path, was string) (did string, err error) {
	if err := errors.Join(host.RemoveFile(path), host.SyncDir(filepath.Dir(path))); err != nil {
		return "", err
	}
	return "kubelet asks for another certificate to serve by: its last one " + was, nil
}

// unread notes that kubelet has not read its files, and which one runs.
func (k *Keeper) unread(runs string) error {
	return host.WriteFileAtomic(k.Root+unreadPath, []byte(runs), state.SecretFileMode)
}

// read has kubelet read its files after a certificate from a later day, which it does only
// when it starts. While the one in the file is not valid, a kubelet that runs is left alone:
// it would not start again.
func (k *Keeper) read(ctx context.Context) (did string, err error) {
	note, err := os.ReadFile(k.Root + unreadPath)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	own, err := readPair(k.Root + kubeadm.KubeletCertificate)
	if err != nil || validity(own.Leaf, k.Now()) != valid {
		return "", err
	}
	runs, err := k.Running()
	if err != nil {
		return "", err
	}
	if len(note) == 0 {
		if err := k.unread(runs); err != nil {
			return "", err
		}
		note = []byte(runs)
	}
	switch {
	case runs == "" || runs != string(note): // it reads them when it starts, or has
	case k.Restart == nil:
		return "", errors.New("kubelet reads its other certificate only when it starts, and Pacemaker decides when it may: " +
			"sudo systemctl stop kubelet, on one host after the other. Pacemaker starts it again within seconds")
	default:
		if err := k.Restart(ctx); err != nil {
			return "", fmt.Errorf("restart kubelet, which reads its certificate only when it starts: %w", err)
		}
		did = "restarted kubelet for its other certificate"
	}
	return did, host.RemoveFile(k.Root + unreadPath)
}

// Restart starts kubelet anew if it runs.
func Restart(ctx context.Context) error {
	_, err := host.Run(ctx, host.Command("systemctl", "try-restart", "--", renderhost.KubeletUnit))
	return err
}
