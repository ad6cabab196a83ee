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

// pinTime bounds the time that a test waits for the lock of a device. The next
// test, a minute later, sees the same certificate again.
const pinTime = time.Second

// unpinned reports whether the certificate of a BMC is unknown: no authority
// vouches for it, and none is pinned.
func unpinned(dev state.FencingDevice) bool { return dev.Insecure && dev.Fingerprint == "" }

// unpinnedError reports a BMC that must not be contacted, because its
// certificate is unknown.
type unpinnedError struct{ target string }

func (e *unpinnedError) Error() string { return "BMC of " + e.target + ": " + e.words() }

func (e *unpinnedError) words() string {
	return "its certificate is neither verified nor pinned yet, so another machine at that address could learn the account and answer Off: " +
		"the BMC is not contacted. The next test, within a minute, pins the certificate that it shows; to pin it now run 'holdfast fencing pin " + e.target + "'"
}

// sight adds the certificate that the BMC shows now to a device that has no
// trusted one. The result is for a test, and is stored only after a good test;
// a fence never uses it.
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

// Sight returns the device with the certificate that its BMC shows now, if it
// had no trusted one before.
func Sight(ctx context.Context, dev state.FencingDevice) (state.FencingDevice, error) {
	return New(command.Streams{}).sight(ctx, dev)
}

// keepPin pins the certificate that a device's BMC showed at first sight, after
// a good test. A change of the device in the meantime has precedence.
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

// keptPin returns dev with the pin of the device that it replaces, unless dev
// brings a pin that an administrator named. A pin lives until an administrator
// accepts another one: the cluster's Secret may be older than the BMC's
// certificate, or have no pin. A pin that was taken at first sight on another
// day or by another host has less weight than this host's own.
func keptPin(old, dev state.FencingDevice) state.FencingDevice {
	weaker := dev.Fingerprint == "" || dev.FirstSight
	if weaker && dev.Insecure && old.Fingerprint != "" && sameBMC(old.Address, dev.Address) {
		dev.Fingerprint, dev.FirstSight = old.Fingerprint, old.FirstSight
	}
	return dev
}

// sameBMC reports whether two addresses belong to the same service. It ignores
// the system in their paths.
func sameBMC(a, b string) bool {
	x, errX := bmc.Parse(a)
	y, errY := bmc.Parse(b)
	if errX != nil || errY != nil {
		return a == b
	}
	return x.Host == y.Host && x.Port == y.Port
}
