// Kafka Streams with a state: how many inputs of each key there were, counted in a RocksDB store under exactly_once_v2.
// An output is {"count": N}, with the headers of its input. streams.py runs it: `streams.py count`.

import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.apache.kafka.streams.state.Stores;
import org.rocksdb.Options;

public class StreamsCount {
  private static final String STORE = "counts";

  public static void main(String[] arguments) throws InterruptedException {
    Map<String, String> environment = System.getenv();
    StreamsBuilder builder = new StreamsBuilder();
    builder.addStateStore(
        Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(STORE), Serdes.String(), Serdes.String()));
    builder
        .stream(environment.get("FENCEPOST_INPUT"), Consumed.with(Serdes.String(), Serdes.String()))
        .process(Counter::new, STORE)
        .to(environment.get("FENCEPOST_OUTPUT"), Produced.with(Serdes.String(), Serdes.String()));
    KafkaStreams streams = new KafkaStreams(builder.build(), settings(environment));
    CountDownLatch failed = new CountDownLatch(1);
    streams.setStateListener(
        (now, before) -> {
          if (now == KafkaStreams.State.ERROR) {
            failed.countDown();
          }
        });
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
    failed.await();
    System.exit(1);
  }

  /** Counts in the store. What is kept of a key is its count and 8 kB, so that RocksDB has something to write to disk. */
  static class Counter implements Processor<String, String, String, String> {
    private static final String PADDING = "x".repeat(8000);
    private ProcessorContext<String, String> context;
    private KeyValueStore<String, String> store;

    @Override
    public void init(ProcessorContext<String, String> context) {
      this.context = context;
      this.store = context.getStateStore(STORE);
    }

    @Override
    public void process(Record<String, String> input) {
      String kept = store.get(input.key());
      long count = 1 + (kept == null ? 0 : Long.parseLong(kept.substring(0, kept.indexOf(' '))));
      store.put(input.key(), count + " " + PADDING);
      context.forward(input.withValue("{\"count\": " + count + "}"));
    }
  }

  /** Memory tables of 64 KiB: they are written to disk between two commits, as those of a busy program are. */
  public static class SmallMemory implements RocksDBConfigSetter {
    @Override
    public void setConfig(String store, Options options, Map<String, Object> settings) {
      options.setWriteBufferSize(64 << 10);
    }

    @Override
    public void close(String store, Options options) {}
  }

  private static Properties settings(Map<String, String> environment) {
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, environment.get("FENCEPOST_GROUP"));
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, environment.get("FENCEPOST_BOOTSTRAP"));
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, environment.getOrDefault("GUARANTEE", StreamsConfig.EXACTLY_ONCE_V2));
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 2000);
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
    settings.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, environment.getOrDefault("STANDBYS", "0"));
    settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 3);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, environment.get("FENCEPOST_DIRECTORY"));
    settings.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, SmallMemory.class);
    settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 6000);
    settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), 1500);
    settings.put(
        StreamsConfig.consumerPrefix(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG), environment.get("FENCEPOST_TRANSACTIONAL_ID"));
    return settings;
  }
}
