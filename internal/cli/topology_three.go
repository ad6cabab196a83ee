package cli

import (
	"fmt"
	"strings"

	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/grow"
	"github.com/holdfast/holdfast/internal/model/config"
)

// more reports whether a file asks for three control planes.
func more(file *config.InstallConfig) bool { return file.ControlPlaneReplicas() == 3 }

// three compares the file with this site of two, shows how it will become one of three, and refuses:
// the rules are there (decide/widen), and nobody carries them out yet.
func (g *growth) three(file *config.InstallConfig) error {
	have, err := g.effects.here()
	if err != nil {
		return err
	}
	if _, err := decide.Three(have, file); err != nil {
		return &UsageError{Err: fmt.Errorf("%s: %w", g.file, err)}
	}
	if err := g.showThree(); err != nil {
		return err
	}
	return coded(command.ExitRefused, "refused: this release does not yet make three control planes of two: nothing was changed. "+
		"Until then install a site of three and restore a backup there, or stay at two")
}

// showThree prints what a later release will do.
func (g *growth) showThree() error {
	var out strings.Builder
	line := func(text string) { _, _ = fmt.Fprintln(&out, text) }
	line("The file fits this site. How two control planes become three (docs/adr/0097):")
	line("  the third host is installed, and its etcd gets all data without a vote")
	line("  both etcd keepers give up their right to go on alone, and the third member gets its vote:")
	line("    for about a second the loss of either host stops writes until it is back; nothing is lost")
	line("  one host after the other gives etcd to kubelet, while the other two serve")
	line("  Corosync, Pacemaker and the etcd keepers end, and the cluster's objects become those of three")
	_, err := fmt.Fprint(g.streams.Out, out.String())
	return err
}
