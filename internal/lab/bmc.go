package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/holdfast/holdfast/internal/lab/bmc"
)

// startBMCs puts every host's BMC on the fencing network.
func (d *daemon) startBMCs(ctx context.Context) error {
	for _, m := range d.machines {
		if err := setBMCAddresses(d.lab.Layout, m.host, true); err != nil {
			return err
		}
		server, err := d.newBMC(m) //nolint:contextcheck // it is ended by closeBMCs
		if err != nil {
			return err
		}
		d.bmcs = append(d.bmcs, server)
		if err := d.serveBMC(ctx, m.host, server); err != nil {
			return fmt.Errorf("BMC of host %s: %w", m.host.Name, err)
		}
	}
	return nil
}

func (d *daemon) newBMC(m *machine) (*bmc.Server, error) {
	h := m.host
	// A controller that is switched off and on shows the same certificate as
	// before, because its peers have pinned it.
	kept, err := bmc.KeptCertificate(d.lab.file(filepath.Join("bmc", h.ID+".pem")), h.Name, texts(h.BMC.Addresses), time.Now())
	if err != nil {
		return nil, err
	}
	return bmc.New(bmc.Config{
		Certificate: &kept,
		Name:        h.Name, Username: h.BMC.Username, Password: h.BMC.Password,
		UUID: h.UUID, Serial: h.Serial, SystemID: h.BMC.SystemID,
		POSTDelay: d.lab.Options.Spec.POSTDelay, Hosts: texts(h.BMC.Addresses),
		Log: d.log.With("bmc", h.Name),
	}, m)
}

func (d *daemon) serveBMC(ctx context.Context, h Host, server *bmc.Server) error {
	for _, a := range h.BMC.Addresses {
		l, err := namespace(d.lab.Layout.Switch()).listen(ctx, net.JoinHostPort(a.String(), strconv.Itoa(BMCPort)))
		if err != nil {
			return err
		}
		go func() {
			if err := server.Serve(ctx, l); err != nil {
				d.log.Error("BMC", "host", h.Name, "error", err)
			}
		}()
	}
	return nil
}

func (d *daemon) closeBMCs() {
	for _, s := range d.bmcs {
		s.Close()
	}
}

// bmcState describes the power of a host as its BMC sees it.
func (d *daemon) bmcState(ctx context.Context, i int) string {
	if d.machines[i].withoutMains() {
		return "no power"
	}
	st, err := d.bmcs[i].State(ctx)
	if err != nil {
		return err.Error()
	}
	return string(st.Phase)
}

// cut pulls the plug of a host, and its BMC notices.
func (d *daemon) cut(ctx context.Context, m *machine) error {
	return d.bmcOf(m).Cut(ctx)
}

func (d *daemon) bmcOf(m *machine) *bmc.Server {
	for i := range d.machines {
		if d.machines[i] == m {
			return d.bmcs[i]
		}
	}
	return nil
}

// mains takes the mains power from a host and its BMC, or gives it back. When
// power is back, the host stays off until somebody switches it on.
func (d *daemon) mains(ctx context.Context, m *machine, present bool) error {
	m.setMains(present)
	err := setBMCAddresses(d.lab.Layout, m.host, present)
	if present {
		return err
	}
	return errors.Join(err, d.cut(ctx, m))
}
