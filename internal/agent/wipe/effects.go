package wipe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/wiping"
)

// network removes virtual IPs, the interfaces of the pod network, and tables. The kernel's
// other rules end with the next boot.
func (w *Wiper) network(ctx context.Context) error {
	if err := w.addresses(ctx); err != nil {
		return err
	}
	out, err := w.Run(ctx, "nft", "-j", "list", "tables")
	if err != nil {
		return err
	}
	tables, err := w.tables(out)
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range tables {
		_, err := w.Run(ctx, "nft", "delete", "table", t[0], t[1])
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// link is an interface, as `ip -j addr` prints it.
type link struct {
	Name      string `json:"ifname"`
	Addresses []struct {
		Local  string `json:"local"`
		Length int    `json:"prefixlen"`
	} `json:"addr_info"`
}

func (w *Wiper) addresses(ctx context.Context) error {
	out, err := w.Run(ctx, "ip", "-j", "addr")
	if err != nil {
		return err
	}
	var links []link
	if err := json.Unmarshal(out, &links); err != nil {
		return fmt.Errorf("read interfaces: %w", err)
	}
	var errs []error
	for _, l := range links {
		if slices.Contains(w.Inventory.Links, l.Name) {
			_, err := w.Run(ctx, "ip", "link", "delete", l.Name)
			errs = append(errs, err)
			continue
		}
		for _, a := range l.Addresses {
			if local, err := netip.ParseAddr(a.Local); err == nil && slices.Contains(w.VIPs, local) {
				_, err := w.Run(ctx, "ip", "addr", "del", a.Local+"/"+strconv.Itoa(a.Length), "dev", l.Name)
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// tables returns family and name of the tables to remove.
func (w *Wiper) tables(list []byte) ([][2]string, error) {
	var read struct {
		Nftables []struct {
			Table *struct{ Family, Name string }
		}
	}
	if err := json.Unmarshal(list, &read); err != nil {
		return nil, fmt.Errorf("read nftables: %w", err)
	}
	var out [][2]string
	for _, o := range read.Nftables {
		if o.Table != nil && slices.ContainsFunc(w.Inventory.Tables, func(prefix string) bool { return strings.HasPrefix(o.Table.Name, prefix) }) {
			out = append(out, [2]string{o.Table.Family, o.Table.Name})
		}
	}
	return out, nil
}

// look returns an error if a disk is in use, before anything is stopped or deleted.
func (w *Wiper) look(ctx context.Context) error {
	var errs []error
	for _, d := range w.Disks {
		out, err := w.Run(ctx, "lsblk", "--noheadings", "--output", "MOUNTPOINTS", d)
		if err != nil {
			errs = append(errs, err)
		} else if why := wiping.Uses(string(out)); why != "" {
			errs = append(errs, fmt.Errorf("disk %s is not wiped: %s", d, why))
		}
	}
	return errors.Join(errs...)
}

// wipeDisks removes the signatures of the named disks. It looks again whether something uses them.
func (w *Wiper) wipeDisks(ctx context.Context) error {
	if err := w.look(ctx); err != nil {
		return err
	}
	var errs []error
	for _, d := range w.Disks {
		_, err := w.Run(ctx, "wipefs", "--all", d)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
