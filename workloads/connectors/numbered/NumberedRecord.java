package fencepost;

import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceRecord;

/** A record that knows its number, for the worker gives it back in commitRecord. */
final class NumberedRecord extends SourceRecord {
    final Numbers source;
    final long number;
    final boolean aborted; // with its transaction, as the task wants it

    NumberedRecord(Numbers source, long number, boolean aborted, Object stored, String topic, int partition, String value) {
        super(source.partition, Map.of(Numbers.NUMBER, stored), topic, partition, Schema.STRING_SCHEMA,
                Integer.toString(source.source), Schema.STRING_SCHEMA, value);
        this.source = source;
        this.number = number;
        this.aborted = aborted;
    }
}
