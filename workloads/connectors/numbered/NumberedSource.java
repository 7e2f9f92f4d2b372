package fencepost;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.ConnectorTransactionBoundaries;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;

/** A source whose partitions are the numbers from 0 on, one after the other: every record has its place in a known sequence. */
public final class NumberedSource extends SourceConnector {
    static final String VERSION = "1";

    private Map<String, String> properties;

    @Override
    public String version() {
        return VERSION;
    }

    @Override
    public ConfigDef config() {
        return Settings.CONNECTOR;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return NumberedTask.class;
    }

    @Override
    public void start(Map<String, String> properties) {
        this.properties = properties;
    }

    @Override
    public void stop() {
        // nothing is open
    }

    /** Source partition s belongs to task s modulo the number of tasks. */
    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        int tasks = Math.min(most, new Settings(Settings.CONNECTOR, properties).sources);
        List<Map<String, String>> found = new ArrayList<>();
        for (int task = 0; task < tasks; task++) {
            Map<String, String> own = new HashMap<>(properties);
            own.put(Settings.TASK, Integer.toString(task));
            own.put(Settings.TASKS, Integer.toString(tasks));
            found.add(own);
        }
        return found;
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> properties) {
        String answer = properties.getOrDefault(Settings.ANSWER_EXACTLY_ONCE, Settings.SUPPORTED);
        if (answer.equals(Settings.NULL)) {
            return null;
        }
        return answer.equals(Settings.SUPPORTED) ? ExactlyOnceSupport.SUPPORTED : ExactlyOnceSupport.UNSUPPORTED;
    }

    @Override
    public ConnectorTransactionBoundaries canDefineTransactionBoundaries(Map<String, String> properties) {
        String answer = properties.getOrDefault(Settings.ANSWER_BOUNDARIES, Settings.SUPPORTED);
        if (answer.equals(Settings.NULL)) {
            return null;
        }
        boolean supported = answer.equals(Settings.SUPPORTED);
        return supported ? ConnectorTransactionBoundaries.SUPPORTED : ConnectorTransactionBoundaries.UNSUPPORTED;
    }

    /** Whether offsets that a user gives by REST are of this connector's form (called from Connect 3.6 on, KIP-875). */
    public boolean alterOffsets(Map<String, String> properties, Map<Map<String, ?>, Map<String, ?>> offsets) {
        offsets.forEach((partition, offset) -> {
            if (Numbers.of(partition) < 0 || offset != null && !(offset.get(Numbers.NUMBER) instanceof Number)) {
                throw new ConnectException("no offset of this connector: " + partition + " " + offset
                        + "; one is {\"source\": \"0\"} {\"number\": 17}");
            }
        });
        return true;
    }
}
