package fence

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/redfish"
)

// DMIDirVariable names the environment variable with the directory of this
// host's SMBIOS files, for hosts that have none of their own.
const DMIDirVariable = "HOLDFAST_DMI_DIR"

// defaultDMIDir is the directory in which Linux shows the SMBIOS.
const defaultDMIDir = "/sys/class/dmi/id"

// agentEnvironment is the file with the environment of the host's agent.
const agentEnvironment = "/etc/default/holdfast-agent"

// OwnIdentity returns the UUID and serial number in this host's SMBIOS; either
// is empty if the machine has none. Only root can read them.
func OwnIdentity() (uuid, serial string, err error) {
	return identityIn(cmp.Or(os.Getenv(DMIDirVariable), variableIn(agentEnvironment, DMIDirVariable), defaultDMIDir))
}

func identityIn(dir string) (uuid, serial string, err error) {
	uuid, errUUID := readID(dir, "product_uuid", redfish.RealUUID)
	serial, errSerial := readID(dir, "product_serial", redfish.RealSerial)
	if uuid == "" && serial == "" {
		return "", "", fmt.Errorf("identity of this host: its SMBIOS has neither UUID nor serial number: %w", errors.Join(errUUID, errSerial))
	}
	return uuid, serial, nil
}

var errPlaceholder = errors.New("its value is a placeholder of the vendor")

// readID reads one identifier of this machine. The function own cleans it by
// the same rule that is used for reports of BMCs.
func readID(dir, name string, own func(string) string) (string, error) {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return "", err
	}
	id := own(string(data))
	if id == "" {
		return "", fmt.Errorf("%s: %w", name, errPlaceholder)
	}
	return id, nil
}

// variableIn reads one variable from a file of KEY=value lines.
func variableIn(path, name string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
			return strings.Trim(value, `"'`)
		}
	}
	return ""
}
