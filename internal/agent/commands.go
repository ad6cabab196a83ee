package agent

import (
	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
)

// commands returns the verbs of holdfast-agent, one constructor a file.
func commands(streams command.Streams) []*cobra.Command {
	return []*cobra.Command{
		newInstall(streams),
		newRun(streams),
		newRender(streams),
		newMonitor(streams),
		newReport(streams),
		newApply(streams),
		newConfigure(streams),
		newPatch(streams),
		newFetch(streams),
		newBring(streams),
		newBackup(streams),
		newLeave(streams),
		newLife(streams),
		newPair(streams),
		newParachute(streams),
		newTrust(streams),
		newTwoNode(streams),
		newWipe(streams),
		newNodeIP(streams),
		newVersion(streams),
	}
}
