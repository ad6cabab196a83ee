package fence

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/redfish"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
)

// pinTime bounds the wait of a test for the lock of a device: what it has seen
// it sees again a minute later.
const pinTime = time.Second

// unpinned reports whether nothing says which certificate a BMC has: no
// authority vouches for it, and none is pinned.
func unpinned(dev state.FencingDevice) bool { return dev.Insecure && dev.Fingerprint == "" }

// unpinnedError is why a BMC is not spoken to.
type unpinnedError struct{ target string }

func (e *unpinnedError) Error() string { return "BMC of " + e.target + ": " + e.words() }

func (e *unpinnedError) words() string {
	return "its certificate is neither verified nor pinned yet, so whoever answers there could learn the account and say Off: " +
		"nothing is said to it and nothing of it believed; the next test pins what it shows, within a minute, and a person does at once: 'holdfast fencing pin " + e.target + "'"
}

// sight is a device that trusts the certificate which its BMC shows now, where
// nothing said before which one it has. It goes into a test, and is kept where
// that is a good one; a fence never begins with it.
func (a *Agent) sight(ctx context.Context, dev state.FencingDevice) (state.FencingDevice, error) {
	if !unpinned(dev) {
		return dev, nil
	}
	address, err := a.address(dev.Address)
	if err != nil {
		return dev, fmt.Errorf("fencing device of %s: address: %w", dev.Target, err)
	}
	shown, err := redfish.CertificateShown(ctx, redfish.Endpoint{Address: address, Name: dev.Target, Timeout: answerTimeout})
	if err != nil {
		return dev, err
	}
	dev.Fingerprint, dev.FirstSight = shown.Fingerprint, true
	return dev, nil
}

// Sight is a device that trusts the certificate which its BMC shows now, where
// nothing said before which one it has.
func Sight(ctx context.Context, dev state.FencingDevice) (state.FencingDevice, error) {
	return New(command.Streams{}).sight(ctx, dev)
}

// keepPin pins what the BMC of a device showed at first sight, after a good test
// of it. Who changes the device meanwhile goes first.
func (s Store) keepPin(ctx context.Context, seen state.FencingDevice) error {
	ctx, cancel := context.WithTimeoutCause(ctx, pinTime, errBusy)
	defer cancel()
	release, err := s.lock(ctx, seen.Target)
	if err != nil {
		return err
	}
	defer release()
	dev, err := s.Files.Device(seen.Target)
	if err != nil || !unpinned(dev) || !sameBMC(dev.Address, seen.Address) {
		return err
	}
	dev.Fingerprint, dev.FirstSight = seen.Fingerprint, true
	if err := s.markPinned(dev.Target); err != nil {
		return err
	}
	_, err = s.Files.WriteDevice(dev)
	return err
}

// keptPin is a device with the pin of the one that it replaces, where it brings
// none of its own. A pin lives until a person accepts another one: the cluster's
// Secret may be older than the BMC's certificate, and have none. What was taken
// at first sight on another day, or by another host, gives way to the own.
func keptPin(old, dev state.FencingDevice) state.FencingDevice {
	weaker := dev.Fingerprint == "" || dev.FirstSight
	if weaker && dev.Insecure && old.Fingerprint != "" && sameBMC(old.Address, dev.Address) {
		dev.Fingerprint, dev.FirstSight = old.Fingerprint, old.FirstSight
	}
	return dev
}

// sameBMC reports whether two addresses are of one service, whatever system of
// it they name.
func sameBMC(a, b string) bool {
	x, errX := bmc.Parse(a)
	y, errY := bmc.Parse(b)
	if errX != nil || errY != nil {
		return a == b
	}
	return x.Host == y.Host && x.Port == y.Port
}
