package twonode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/host"
)

// Files of pcs and Corosync.
const (
	tokenFile    = "/run/holdfast/pcsd-token"
	acceptedFile = "/var/lib/pcsd/pcs_users.conf"
	corosyncConf = "/etc/corosync/corosync.conf"
	accounts     = "/etc/passwd"
)

// pcsAccount is who pcs speaks as.
const pcsAccount = "hacluster"

// auth has this host's pcsd take the cluster's token and this host know both
// by it. The other host's pcsd may not know the token yet: it is waited for.
func (h *Host) auth(ctx context.Context, in twonode.Input) (err error) {
	if err := h.checkAccount(); err != nil {
		return err
	}
	if err := h.leaveExample(ctx, in); err != nil {
		return err
	}
	if err := h.do(ctx, "the other host sets this one up by it", host.Command("systemctl", "enable", "--now", "--quiet", "pcsd.service")); err != nil {
		return err
	}
	if err := h.write(tokenFile, []byte(in.Token), 0o600); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.remove(tokenFile)) }()
	if err := h.accept(ctx, in.Token); err != nil {
		return err
	}
	return h.know(ctx, in)
}

func (h *Host) checkAccount() error {
	text, err := os.ReadFile(h.path(accounts))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, pcsAccount+":") {
			return nil
		}
	}
	return fmt.Errorf("this host has no account %s: install the package pcs", pcsAccount)
}

// leaveExample ends the one-node example that a distribution's package brings,
// and refuses a host that is in somebody's cluster.
func (h *Host) leaveExample(ctx context.Context, in twonode.Input) error {
	have, err := h.corosync()
	if err != nil {
		return err
	}
	if have.Example() {
		return h.do(ctx, "the package's example is nobody's cluster", host.Command("pcs", "cluster", "destroy"))
	}
	_, err = twonode.CorosyncSteps(have, twonode.Wanted(in).Corosync)
	return err
}

func (h *Host) corosync() (twonode.Corosync, error) {
	text, err := h.read(corosyncConf)
	if err != nil {
		return twonode.Corosync{}, err
	}
	return twonode.ParseCorosync(text)
}

// accept makes the token one that this host's pcsd takes. pcs would store it
// once more at each call.
func (h *Host) accept(ctx context.Context, token string) error {
	known, err := h.accepted()
	if err != nil || slices.Contains(known, encoded(token)) {
		return err
	}
	return h.do(ctx, "this host's pcsd takes the cluster's token", host.Command("pcs", "pcsd", "accept_token", tokenFile))
}

// accepted lists the tokens that pcsd takes, as it stores them.
func (h *Host) accepted() ([]string, error) {
	text, err := h.read(acceptedFile)
	if err != nil || len(text) == 0 {
		return nil, err
	}
	var list []struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		h.say("%s cannot be read, pcs will write it anew: %v", acceptedFile, err)
	}
	var tokens []string
	for _, e := range list {
		tokens = append(tokens, e.Token)
	}
	return tokens, nil
}

// know has this host speak to both by the token.
func (h *Host) know(ctx context.Context, in twonode.Input) error {
	args := []string{"host", "auth"}
	for _, n := range in.Nodes {
		args = append(args, n.Name, "addr="+n.Address)
	}
	c := host.Command("pcs", append(args, "--token", tokenFile)...)
	if h.DryRun {
		return h.do(ctx, "both hosts are known by it", c)
	}
	h.say("%s    # both hosts are known by it", c)
	return h.until(ctx, "pcsd of both hosts takes the token", func(ctx context.Context) (string, error) {
		_, err := h.Run(ctx, c)
		return "", err
	})
}

func (h *Host) remove(path string) error {
	if h.DryRun {
		return nil
	}
	return os.Remove(h.path(path))
}
