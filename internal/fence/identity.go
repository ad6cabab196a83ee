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

// DMIDirVariable names the environment variable that says where this host's
// SMBIOS is to be read, for hosts that have none of their own.
const DMIDirVariable = "HOLDFAST_DMI_DIR"

// defaultDMIDir is where Linux shows the SMBIOS.
const defaultDMIDir = "/sys/class/dmi/id"

// agentEnvironment is where a host keeps the environment of its agent.
const agentEnvironment = "/etc/default/holdfast-agent"

// OwnIdentity returns UUID and serial number of this host as its SMBIOS tells
// them; either is empty where the machine has none. Only root can read them.
func OwnIdentity() (uuid, serial string, err error) {
	return identityIn(cmp.Or(os.Getenv(DMIDirVariable), variableIn(agentEnvironment, DMIDirVariable), defaultDMIDir))
}

func identityIn(dir string) (uuid, serial string, err error) {
	uuid, errUUID := readID(dir, "product_uuid", redfish.RealUUID)
	serial, errSerial := readID(dir, "product_serial", redfish.RealSerial)
	if uuid == "" && serial == "" {
		return "", "", fmt.Errorf("identity of this host: its SMBIOS tells neither UUID nor serial number: %w", errors.Join(errUUID, errSerial))
	}
	return uuid, serial, nil
}

var errPlaceholder = errors.New("it holds what a vendor left there")

// readID reads what tells this machine from others, by the rule that also holds
// for what controllers report.
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

// variableIn reads one variable of a file of lines KEY=value.
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
